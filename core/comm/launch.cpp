#include "core/comm/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "core/thread_limit.h"

extern char** environ;

namespace mobius {

namespace {

// The name of a variable and its value, if set.
struct Number {
  std::string_view name;
  std::optional<int> value{};
};

// The variables of one launcher.
struct Place {
  Number rank, size, local_rank, local_size;
};

// Returns the number that is the whole text; empty if it is not a number or does not fit.
std::optional<int> parse(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end ? std::optional(value) : std::nullopt;
}

Number read(const Environment& environment, std::string_view name) {
  const auto entry = environment.find(std::string(name));
  if (name.empty() || entry == environment.end() || entry->second.empty()) return {name};
  const std::optional<int> value = parse(entry->second);
  if (value.value_or(-1) < 0) {
    throw ConfigError("launch: {}={}: expected a whole number, 0 or more", name, entry->second);
  }
  return {name, value};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// OpenMP also accepts a list.
std::optional<int> read_thread_count(const Environment& environment, const std::string& name) {
  const auto entry = environment.find(name);
  if (entry == environment.end() || trimmed(entry->second).empty()) return std::nullopt;
  const std::string_view text = entry->second;
  const std::optional<int> count = parse(trimmed(text.substr(0, text.find(','))));
  if (count.value_or(0) < 1 || *count > most_threads) {
    throw ConfigError("{}={}: expected a number of threads from 1 to {}", name, text, most_threads);
  }
  return count;
}

void require_below(const Number& index, const Number& count) {
  if (!index.value || !count.value || *index.value < *count.value) return;
  throw ConfigError("launch: {}={}, but {}={}: the first must be smaller", index.name, *index.value,
                    count.name, *count.value);
}

void require_consistent(const Place& place) {
  const auto& [rank, size, local_rank, local_size] = place;
  require_below(rank, size);
  require_below(local_rank, local_size);
  if (size.value && local_size.value && *local_size.value > *size.value) {
    throw ConfigError("launch: {}={}, but {}={}: there are fewer ranks in all than here",
                      local_size.name, *local_size.value, size.name, *size.value);
  }
  if (size.value.value_or(1) > 1 && !rank.value) {
    throw ConfigError("launch: {}={}, but {} is not set", size.name, *size.value, rank.name);
  }
  if (rank.value.value_or(0) > 0 && !size.value) {
    throw ConfigError("launch: {}={}, but {} is not set", rank.name, *rank.value, size.name);
  }
}

Place read_place(const Environment& environment, std::string_view rank, std::string_view size,
                 std::string_view local_rank, std::string_view local_size) {
  const Place place = {read(environment, rank), read(environment, size),
                       read(environment, local_rank), read(environment, local_size)};
  require_consistent(place);
  return place;
}

Place srun_place(const Environment& environment) {
  if (!environment.contains("SLURM_STEP_ID")) return {};
  const bool knows_step = environment.contains("SLURM_STEP_NUM_TASKS");
  return read_place(environment, "SLURM_PROCID",
                    knows_step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "SLURM_LOCALID", "");
}

// MPI finds the other ranks by PMIx or PMI, which srun offers only on request.
void require_connected(const Place& srun, const Environment& environment) {
  if (srun.size.value.value_or(1) == 1) return;
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (environment.contains(name)) return;
  }
  throw ConfigError(
      "launch: srun started {} ranks that cannot find each other; use srun --mpi=pmix",
      *srun.size.value);
}

void require_same(const Number& a, const Number& b) {
  if (!a.value || !b.value || *a.value == *b.value) return;
  throw ConfigError(
      "launch: {}={}, but {}={}: two launchers contradict each other; unset the variables of the "
      "one that did not start this process",
      a.name, *a.value, b.name, *b.value);
}

void require_same(const Place& a, const Place& b) {
  require_same(a.rank, b.rank);
  require_same(a.size, b.size);
  require_same(a.local_rank, b.local_rank);
  require_same(a.local_size, b.local_size);
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t end = text.find('=');
    if (end == std::string_view::npos) continue;
    environment.emplace(text.substr(0, end), text.substr(end + 1));
  }
  return environment;
}

Launch launch_of(const Environment& environment) {
  const Place torchrun =
      read_place(environment, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  const Place srun = srun_place(environment);
  Place place = read_place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  const Place pmi =
      read_place(environment, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  if (!place.size.value) place = pmi.size.value ? pmi : Place();
  if (!place.size.value && srun.size.value) {
    require_connected(srun, environment);
    place = srun;
  }
  if (place.size.value) {
    require_same(torchrun, place);
  } else if (torchrun.size.value.value_or(1) > 1) {
    throw ConfigError(
        "launch: {}={}, but no MPI launcher started this process; start the ranks by mpirun -n {} "
        "or srun -n {}",
        torchrun.size.name, *torchrun.size.value, *torchrun.size.value, *torchrun.size.value);
  }
  Launch launch;
  launch.rank = place.rank.value.value_or(0);
  launch.size = std::max(place.size.value.value_or(1), 1);
  launch.local_rank = place.local_rank.value ? place.local_rank.value : torchrun.local_rank.value;
  launch.local_size = place.local_size.value ? place.local_size.value : torchrun.local_size.value;
  launch.threads = read_thread_count(environment, "OMP_NUM_THREADS");
  if (srun.size.value) launch.cpus = read(environment, "SLURM_CPUS_PER_TASK").value;
  return launch;
}

int threads_per_rank(const Launch& launch, int current, int cores) {
  if (launch.threads) return *launch.threads;
  if (launch.size == 1) return current;
  if (launch.cpus.value_or(0) > 0) return std::min(*launch.cpus, most_threads);
  const int local_size = launch.local_size.value_or(1);
  return std::clamp(cores / std::max(local_size, 1), 1, current);
}

}  // namespace mobius
