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

// MPI's own errors end all ranks with a message: its default, which we keep.

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

void require_dense(const Tensor& values) {
  if (!values.is_contiguous()) throw Error("mpi: the values are not dense");
}

void require_summable(const Tensor& values) {
  if (values.dtype() == DType::f32 || values.dtype() == DType::f64) return;
  throw_unsupported_dtype("mpi: sum", values.dtype());
}

void require_equal_parts(const Tensor& values, int size) {
  if (values.numel() % size == 0) return;
  throw Error("mpi: {} values have no equal parts for {} ranks", values.numel(), size);
}

// The values of a tensor where MPI can reach them: themselves, or a copy.
class HostValues {
 public:
  explicit HostValues(Tensor values) : values_(std::move(values)), host_(values_) {
    require_dense(values_);
    count_of(values_);
    if (values_.device().type == DeviceType::cpu) return;
    host_ = Tensor::empty(values_.shape(), values_.dtype());
    copy_to_host(values_, host_.raw());
  }

  const Tensor& host() const { return host_; }
  // To be called when they have changed.
  void give_back() {
    if (!host_.shares_storage(values_)) {
      copy_from_host(host_.raw(), values_);
    }
    values_.bump_version();
  }

 private:
  Tensor values_, host_;
};

// An operation in which each rank owns its part of the values. Where it reduces, every rank first
// sends each part to its owner, who adds what it gets to its own in the order of the ranks: so a
// sum depends on the number of ranks alone. Where it gathers, the owners then send their parts to
// all. The messages of a step go directly from rank to rank, in all (size - 1) / size of the values
// from each, which is the least possible; MPI's own non-blocking reductions may send more, and add
// up in an order of their own.
class Exchange final : public Pending {
 public:
  struct Kind {
    bool reduces, gathers;
  };
  // Its messages have the tags `tag` and `tag` + 1.
  Exchange(Tensor values, Kind kind, const Communicator& ranks, int tag,
           std::vector<Exchange*>& under_way)
      : values_(std::move(values)),
        flat_(values_.host().reshape({-1})),
        kind_(kind),
        rank_(ranks.rank()),
        size_(ranks.size()),
        tag_(tag),
        under_way_(under_way) {
    under_way_.push_back(this);
    if (kind_.reduces) {
      start_reducing();
    } else {
      start_gathering();
    }
  }
  // Given up half-way only where an error ends the process: MPI may still write to the values.
  ~Exchange() override {
    std::erase(under_way_, this);
    if (is_complete_) return;
    new HostValues(std::move(values_));
    new Tensor(std::move(received_));
  }

  void advance() override {
    while (!is_complete_ && have_arrived()) go_on();
  }
  // The others move on, too: another rank may wait for what this one has to send in them.
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
  // What `rank` sent of this rank's part.
  Tensor version_of(int rank) const {
    if (rank == rank_) return part(rank_);
    const int row = rank < rank_ ? rank : rank - 1;
    return received_.slice(0, row, row + 1).reshape({-1});
  }

  void send(const Tensor& values, int to, int tag) {
    if (values.numel() == 0) return;
    MPI_Isend(values.raw(), count_of(values), mpi_type(values.dtype()), to, tag, MPI_COMM_WORLD,
              &requests_.emplace_back());
  }
  void receive(const Tensor& values, int from, int tag) {
    if (values.numel() == 0) return;
    MPI_Irecv(values.raw(), count_of(values), mpi_type(values.dtype()), from, tag, MPI_COMM_WORLD,
              &requests_.emplace_back());
  }
  bool have_arrived() {
    int is_complete = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_complete,
                MPI_STATUSES_IGNORE);
    return is_complete != 0;
  }

  void start_reducing() {
    received_ = Tensor::empty({size_ - 1, part(rank_).numel()}, flat_.dtype());
    for_each_other([this](int other) {
      receive(version_of(other), other, tag_);
      send(part(other), other, tag_);
    });
  }
  void start_gathering() {
    requests_.clear();
    for_each_other([this](int other) {
      receive(part(other), other, tag_ + 1);
      send(part(rank_), other, tag_ + 1);
    });
  }
  void add_up() {
    Tensor sum = version_of(0);
    for (int rank = 1; rank < size_; ++rank) sum.add_(version_of(rank));
    if (rank_ != 0) part(rank_).copy_from(sum);
    received_ = Tensor();
  }
  // To be called when the messages of a step have arrived.
  void go_on() {
    if (received_.defined()) {
      add_up();
      if (kind_.gathers) return start_gathering();
    }
    values_.give_back();
    is_complete_ = true;
  }
  // Each rank begins with the next one: not all with the first.
  template <typename Fn>
  void for_each_other(Fn&& fn) const {
    for (int i = 1; i < size_; ++i) fn((rank_ + i) % size_);
  }

  HostValues values_;
  Tensor flat_, received_;
  Kind kind_;
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

  std::unique_ptr<Pending> start_sum(Tensor values) override {
    require_summable(values);
    return start(std::move(values), {.reduces = true, .gathers = true});
  }
  std::unique_ptr<Pending> start_reduce_scatter(Tensor values) override {
    require_summable(values);
    require_equal_parts(values, size());
    return start(std::move(values), {.reduces = true, .gathers = false});
  }
  std::unique_ptr<Pending> start_all_gather(Tensor values) override {
    require_equal_parts(values, size());
    return start(std::move(values), {.reduces = false, .gathers = true});
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

 private:
  std::unique_ptr<Pending> start(Tensor values, Exchange::Kind kind) {
    constexpr int least_tag_bound = 32767;  // of any MPI
    next_tag_ = (next_tag_ + 2) % (least_tag_bound - 1);
    return std::make_unique<Exchange>(std::move(values), kind, *this, next_tag_, under_way_);
  }

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
