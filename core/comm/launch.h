// How this process was launched: alone, or as one of several ranks. Every launcher sets its own
// environment variables:
//
//               mpirun (Open MPI)           mpiexec (PMI)    srun                  torchrun
//   rank        OMPI_COMM_WORLD_RANK        PMI_RANK         SLURM_PROCID          RANK
//   size        OMPI_COMM_WORLD_SIZE        PMI_SIZE         SLURM_STEP_NUM_TASKS  WORLD_SIZE
//   local rank  OMPI_COMM_WORLD_LOCAL_RANK  MPI_LOCALRANKID  SLURM_LOCALID         LOCAL_RANK
//   local size  OMPI_COMM_WORLD_LOCAL_SIZE  MPI_LOCALNRANKS  -                     LOCAL_WORLD_SIZE
//   threads     OMP_NUM_THREADS             OMP_NUM_THREADS  SLURM_CPUS_PER_TASK   OMP_NUM_THREADS
#pragma once

#include <map>
#include <optional>
#include <string>

namespace mobius {

using Environment = std::map<std::string, std::string>;

/// Returns the variables of this process.
Environment process_environment();

struct Launch {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank{};  ///< among the ranks on this machine
  std::optional<int> local_size{};
  /// OMP_NUM_THREADS, or its first number if it is a list for nested levels.
  std::optional<int> threads{};
  std::optional<int> cpus{};  ///< number that the launcher gave to this rank
};

/// The innermost launcher counts: Open MPI before PMI before srun, because mpirun may run under
/// srun. Slurm's variables count only within srun (SLURM_STEP_ID), because a batch script has some,
/// too. torchrun's variables may be set beside those of an MPI launcher and must then agree with
/// them.
///
/// Throws ConfigError if launchers or the variables of one launcher contradict each other, if a
/// variable is not a number, if only torchrun asks for several ranks, if srun does without telling
/// MPI how they find each other, or if OMP_NUM_THREADS is not from 1 to most_threads, which OpenMP
/// would wrap round or ignore.
Launch launch_of(const Environment& environment);

/// Returns the default number of threads per rank: OMP_NUM_THREADS if set; else `current`, the
/// count of OpenMP, for one rank; else that of the launcher; else an equal share of the machine's
/// `cores`, at most `current`.
int threads_per_rank(const Launch& launch, int current, int cores);

}  // namespace mobius
