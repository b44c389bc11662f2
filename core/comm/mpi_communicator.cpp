#include <mpi.h>

#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/error.h"

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

void require_dense_on_host(const Tensor& values) {
  if (values.device().type != DeviceType::cpu) {
    throw Error("mpi: the values are on {}, expected them in host memory",
                to_string(values.device()));
  }
  if (!values.is_contiguous()) throw Error("mpi: the values are not dense");
}

class MpiPending final : public Pending {
 public:
  MpiPending(MPI_Request request, Tensor values) : request_(request), values_(std::move(values)) {}
  // Given up half-way only where an error ends the process: MPI may still write to the values.
  ~MpiPending() override {
    if (request_ != MPI_REQUEST_NULL) new Tensor(std::move(values_));
  }

  void advance() override {
    int is_complete = 0;
    MPI_Test(&request_, &is_complete, MPI_STATUS_IGNORE);
  }
  void wait() override { MPI_Wait(&request_, MPI_STATUS_IGNORE); }

 private:
  MPI_Request request_;
  Tensor values_;
};

// How the elements of a tensor are divided among the ranks, in MPI's terms.
struct Division {
  std::vector<int> counts, begins;

  Division(const Tensor& whole, int size) : Division(count_of(whole), size) {}
  Division(std::int64_t n, int size) {
    for (int rank = 0; rank < size; ++rank) {
      const Share share = share_of(n, rank, size);
      counts.push_back(static_cast<int>(share.size()));
      begins.push_back(static_cast<int>(share.begin));
    }
  }
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(int rank, int size) : Communicator(rank, size) {}
  ~MpiCommunicator() override {
    MPI_Barrier(MPI_COMM_WORLD);  // a launcher may end the others when the first one leaves
    MPI_Finalize();
  }

  std::unique_ptr<Pending> start_sum(Tensor values) override {
    require_dense_on_host(values);
    if (values.dtype() != DType::f32 && values.dtype() != DType::f64) {
      throw_unsupported_dtype("mpi: sum", values.dtype());
    }
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, values.raw(), count_of(values), mpi_type(values.dtype()), MPI_SUM,
                   MPI_COMM_WORLD, &request);
    values.bump_version();
    return std::make_unique<MpiPending>(request, std::move(values));
  }

  void sum(std::span<double> values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  void broadcast(Tensor values) override {
    require_dense_on_host(values);
    MPI_Bcast(values.raw(), count_of(values), mpi_type(values.dtype()), 0, MPI_COMM_WORLD);
    values.bump_version();
  }

  std::string broadcast(const std::string& text) override {
    auto length = static_cast<std::uint64_t>(text.size());
    MPI_Bcast(&length, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    std::string result = text;
    result.resize(length);
    MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
    return result;
  }

  void all_gather(Tensor whole) override {
    require_dense_on_host(whole);
    const Division division(whole, size());
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole.raw(), division.counts.data(),
                   division.begins.data(), mpi_type(whole.dtype()), MPI_COMM_WORLD);
    whole.bump_version();
  }

  void gather(const Tensor& share, Tensor whole) override {
    require_dense_on_host(share);
    const MPI_Datatype type = mpi_type(share.dtype());
    if (!is_root()) {
      MPI_Gatherv(share.raw(), count_of(share), type, nullptr, nullptr, nullptr, type, 0,
                  MPI_COMM_WORLD);
      return;
    }
    require_dense_on_host(whole);
    const Division division(whole, size());
    MPI_Gatherv(share.raw(), count_of(share), type, whole.raw(), division.counts.data(),
                division.begins.data(), type, 0, MPI_COMM_WORLD);
    whole.bump_version();
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == launch.rank && size == launch.size) {
    return std::make_unique<MpiCommunicator>(rank, size);
  }
  MPI_Finalize();
  throw ConfigError(
      "launch: the launcher started rank {} of {}, but MPI sees rank {} of {}: launcher and MPI "
      "library do not belong together (with srun, try --mpi=pmix)",
      launch.rank, launch.size, rank, size);
}

}  // namespace mobius
