// How this process was launched: alone, or as one of several ranks. Read from the environment, in
// which every launcher says so in variables of its own:
//
//              mpirun (Open MPI)            mpiexec (PMI)     srun                   torchrun
//   rank       OMPI_COMM_WORLD_RANK         PMI_RANK          SLURM_PROCID           RANK
//   size       OMPI_COMM_WORLD_SIZE         PMI_SIZE          SLURM_STEP_NUM_TASKS   WORLD_SIZE
//   local rank OMPI_COMM_WORLD_LOCAL_RANK   MPI_LOCALRANKID   SLURM_LOCALID          LOCAL_RANK
//   local size OMPI_COMM_WORLD_LOCAL_SIZE   MPI_LOCALNRANKS   - LOCAL_WORLD_SIZE threads
//   OMP_NUM_THREADS              OMP_NUM_THREADS   SLURM_CPUS_PER_TASK    OMP_NUM_THREADS
#pragma once

#include <map>
#include <optional>
#include <string>

namespace mobius {

using Environment = std::map<std::string, std::string>;

/// The variables of this process.
Environment process_environment();

struct Launch {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank{};  ///< among the ranks on this machine
  std::optional<int> local_size{};
  /// OMP_NUM_THREADS: of a list, which has a number for each level of nesting, the first.
  std::optional<int> threads{};
  std::optional<int> cpus{};  ///< that the launcher gave to this rank
};

/// The innermost launcher counts: Open MPI before PMI before srun, for mpirun may itself run under
/// srun. Slurm's variables count only within srun (SLURM_STEP_ID): a batch script has some, too.
///
/// torchrun's start nothing here: they may be set beside those of an MPI launcher, and must then
/// agree with them. Throws ConfigError, in one line, where they do not, where a launcher's own
/// variables contradict each other, where one is no number, or where torchrun alone asks for
/// several ranks, or srun does without telling MPI how they find each other; and where
/// OMP_NUM_THREADS is no number of threads from 1 to most_threads, which OpenMP would wrap round or
/// pass over.
Launch launch_of(const Environment& environment);

/// Threads for each rank where its configuration names no number: OMP_NUM_THREADS where that is
/// set; else `current`, OpenMP's own count, where one rank runs alone; else the launcher's, else an
/// equal share of the machine's `cores`, but no more than `current`.
int threads_per_rank(const Launch& launch, int current, int cores);

}  // namespace mobius
