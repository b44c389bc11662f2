#include <mpi.h>

#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/error.h"
#include "core/ops/copy.h"

namespace mobius {

namespace {

// By default, an error of MPI ends all ranks with a message.

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::bf16:
      return MPI_UINT16_T;  // moved, never summed
    case DType::u8:
      break;
  }
  return MPI_UINT8_T;
}

int count_of(const Tensor& values) {
  if (values.numel() > std::numeric_limits<int>::max()) {
    throw Error("mpi: {} values in one message, but it counts to {}", values.numel(),
                std::numeric_limits<int>::max());
  }
  return static_cast<int>(values.numel());
}

// The values of a tensor in host memory: themselves or a copy.
class HostValues {
 public:
  explicit HostValues(Tensor values) : values_(std::move(values)), host_(values_) {
    if (!values_.is_contiguous()) throw Error("mpi: the values are not dense");
    count_of(values_);
    if (values_.device().type == DeviceType::cpu) return;
    host_ = Tensor::empty(values_.shape(), values_.dtype());
    copy_to_host(values_, host_.raw());
  }

  const Tensor& host() const { return host_; }
  // Must be called after a change.
  void give_back() {
    if (!host_.shares_storage(values_)) copy_from_host(host_.raw(), values_);
    values_.bump_version();
  }

 private:
  Tensor values_, host_;
};

// Each rank owns its part of the values. To reduce, every rank sends each part to its owner, who
// sums the parts in the order of the ranks, so a sum depends only on the number of ranks. To
// gather, the owners send their parts to all. Messages go directly from rank to rank, and each rank
// sends (size - 1) / size of the values per step, the least possible. MPI's own non-blocking
// reductions may send more and sum in another order.
class Exchange final : public Pending {
 public:
  // Its messages have the tags `tag` and `tag` + 1.
  Exchange(Tensor values, bool reduces, bool gathers, const Communicator& ranks, int tag,
           std::vector<Exchange*>& under_way)
      : values_(std::move(values)),
        flat_(values_.host().reshape({-1})),
        gathers_(gathers),
        rank_(ranks.rank()),
        size_(ranks.size()),
        tag_(tag),
        under_way_(under_way) {
    under_way_.push_back(this);
    if (reduces) received_ = Tensor::empty({size_ - 1, part(rank_).numel()}, flat_.dtype());
    send_parts(reduces);
  }
  // If an error ends the process half-way, MPI may still write to the values.
  ~Exchange() override {
    std::erase(under_way_, this);
    if (is_complete_) return;
    new HostValues(std::move(values_));
    new Tensor(std::move(received_));
  }

  void advance() override {
    while (!is_complete_ && have_arrived()) go_on();
  }
  // Advances all operations, because another rank may wait for their messages.
  void wait() override {
    while (!is_complete_) {
      for (Exchange* exchange : under_way_) exchange->advance();
    }
  }

 private:
  Tensor part(int rank) const {
    const Share share = share_of(flat_.numel(), rank, size_);
    return flat_.slice(0, share.begin, share.end);
  }
  // Returns what `rank` sent of this rank's part.
  Tensor version_of(int rank) const {
    if (rank == rank_) return part(rank_);
    const int row = rank < rank_ ? rank : rank - 1;
    return received_.slice(0, row, row + 1).reshape({-1});
  }

  bool have_arrived() {
    int is_complete = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_complete,
                MPI_STATUSES_IGNORE);
    return is_complete != 0;
  }

  // Sends each part to its owner, or the own part to all. Each rank begins with the next one: not
  // all with the first.
  void send_parts(bool to_owners) {
    requests_.clear();
    const int tag = to_owners ? tag_ : tag_ + 1;
    for (int i = 1; i < size_; ++i) {
      const int other = (rank_ + i) % size_;
      const Tensor in = to_owners ? version_of(other) : part(other);
      const Tensor out = part(to_owners ? other : rank_);
      if (in.numel() > 0)
        MPI_Irecv(in.raw(), count_of(in), mpi_type(in.dtype()), other, tag, MPI_COMM_WORLD,
                  &requests_.emplace_back());
      if (out.numel() > 0)
        MPI_Isend(out.raw(), count_of(out), mpi_type(out.dtype()), other, tag, MPI_COMM_WORLD,
                  &requests_.emplace_back());
    }
  }
  void add_up() {
    Tensor sum = version_of(0);
    for (int rank = 1; rank < size_; ++rank) sum.add_(version_of(rank));
    if (rank_ != 0) part(rank_).copy_from(sum);
    received_ = Tensor();
  }
  // Must be called when the messages of a step have arrived.
  void go_on() {
    if (received_.defined()) {
      add_up();
      if (gathers_) return send_parts(/*to_owners=*/false);
    }
    values_.give_back();
    is_complete_ = true;
  }
  HostValues values_;
  Tensor flat_, received_;
  bool gathers_;
  int rank_, size_, tag_;
  bool is_complete_ = false;
  std::vector<MPI_Request> requests_;
  std::vector<Exchange*>& under_way_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(int rank, int size, Device device) : Communicator(rank, size, device) {}
  ~MpiCommunicator() override {
    MPI_Barrier(MPI_COMM_WORLD);  // a launcher may end the others when the first one leaves
    MPI_Finalize();
  }

  void sum(std::span<double> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  void broadcast(Tensor values) override {
    HostValues staged(std::move(values));
    const Tensor& host = staged.host();
    MPI_Bcast(host.raw(), count_of(host), mpi_type(host.dtype()), 0, MPI_COMM_WORLD);
    staged.give_back();
  }

  std::string broadcast(const std::string& text) override {
    auto length = static_cast<std::uint64_t>(text.size());
    MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    std::string result = text;
    result.resize(length);
    MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
    return result;
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 protected:
  std::unique_ptr<Pending> start(Tensor values, Steps steps) override {
    if (steps.reduces && values.dtype() != DType::f32 && values.dtype() != DType::f64)
      throw_unsupported_dtype("mpi: sum", values.dtype());
    if (!(steps.reduces && steps.gathers) && values.numel() % size() != 0)
      throw Error("mpi: {} values have no equal parts for {} ranks", values.numel(), size());
    constexpr int least_tag_bound = 32767;  // of any MPI
    next_tag_ = (next_tag_ + 2) % (least_tag_bound - 1);
    return std::make_unique<Exchange>(std::move(values), steps.reduces, steps.gathers, *this,
                                      next_tag_, under_way_);
  }

 private:
  int next_tag_ = 0;
  std::vector<Exchange*> under_way_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch, Device device) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == launch.rank && size == launch.size) {
    return std::make_unique<MpiCommunicator>(rank, size, device);
  }
  MPI_Finalize();
  throw ConfigError(
      "launch: the launcher started rank {} of {}, but MPI sees rank {} of {}: launcher and MPI "
      "library do not belong together (with srun, try --mpi=pmix)",
      launch.rank, launch.size, rank, size);
}

}  // namespace mobius
