#include "train/run/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "core/backend.h"
#include "core/error.h"
#include "core/options/schema.h"
#include "nn/language_model.h"
#include "train/run/progress.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

// ---- available memory

// Finds the number of `name` in a file of "name number" or "name: number unit" lines.
std::optional<double> read_named(const fs::path& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string key;
    double number = 0;
    if (words >> key >> number && (key == name || key == name + ":")) return number;
  }
  return std::nullopt;
}

// The files of a control group: a limit, the bytes in use, and the pages of files among them.
struct GroupFiles {
  const char *limit, *usage, *of_files;
};

// The system gives up pages of files when memory is short.
double left_in(const fs::path& group, const GroupFiles& names) {
  std::ifstream limit(group / names.limit), usage(group / names.usage);
  double most = 0, used = 0;
  if (!(limit >> most && usage >> used)) return std::numeric_limits<double>::infinity();  // "max"
  const double files = read_named(group / "memory.stat", names.of_files).value_or(0);
  return std::max(0.0, most - std::max(0.0, used - files));
}

// Returns what the groups from `path` up to the root leave. In a container the path may lie outside
// of what is mounted, whose root is then the container's own group.
double left_in_groups(fs::path group, const fs::path& path, const GroupFiles& names) {
  double left = left_in(group, names);
  for (const fs::path& part : path.relative_path()) {
    group /= part;
    left = std::min(left, left_in(group, names));
  }
  return left;
}

// Lines of /proc/self/cgroup: "0::/path" of version 2, "4:memory:/path" of version 1.
double left_by_control_groups(const fs::path& root) {
  double left = std::numeric_limits<double>::infinity();
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = line.substr(second + 1);
    const fs::path groups = root / "sys/fs/cgroup";
    if (controllers == ",,") {
      left = std::min(left, left_in_groups(groups, path, {"memory.max", "memory.current", "file"}));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(
          left, left_in_groups(groups / "memory", path,
                               {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"}));
    }
  }
  return left;
}

// ---- needed memory

constexpr double bytes_of_number = 4;  // f32, and i32 of tokens

// Returns "task.vocab = 64" if the value is that of such a key of the task.
std::string size_in_words(const Config& config, const std::string& key, std::int64_t value,
                          const std::string& words) {
  const auto schema = describe(*config.task);
  const OptionEntry* entry = schema->find(key);
  const auto* field = entry == nullptr ? nullptr : std::get_if<OptionField>(entry);
  const bool is_set = field != nullptr && field->value() == OptionValue(value);
  return is_set ? fmt::format("task.{} = {}", key, value) : fmt::format("{} {}", words, value);
}

// Counts the copies of each parameter.
double copies(const Config& config, MemoryUse use, int ranks) {
  double count = 1;
  const bool is_spread = config.distributed.zero_stage > 0;
  if (use != MemoryUse::model) count += config.optimizer->moments() / (is_spread ? ranks : 1.0);
  if (use == MemoryUse::training) ++count;  // gradients
  return count;
}

// A block keeps, for every position, the inputs and outputs of both norms, the queries, the output
// of attention and the inner values of the MLP for its backward pass. Keys and values may be few.
double kept_by_block(const ModelOptions& model) {
  const double inner = static_cast<double>(model.hidden_width());
  return 6 * static_cast<double>(model.d_model) + (model.mlp == MlpKind::swiglu ? 3 : 1) * inner;
}

}  // namespace

std::optional<double> available_memory(const fs::path& root) {
  const std::optional<double> machine = read_named(root / "proc/meminfo", "MemAvailable");
  if (!machine) return std::nullopt;
  constexpr double kib = 1024;
  const double swap = read_named(root / "proc/meminfo", "SwapFree").value_or(0);
  return std::min(kib * *machine, left_by_control_groups(root)) + kib * swap;
}

std::vector<MemoryPart> memory_need(const Config& config, const TaskSize& task, MemoryUse use,
                                    int ranks) {
  const ModelOptions& model = config.model;
  const ModelSize size = size_of_model(model, *config.attention, task.vocab, task.seq_len);
  const double bytes = bytes_of_number * copies(config, use, ranks);
  const std::string width = fmt::format("model.d_model = {}", model.d_model);
  const std::string length = size_in_words(config, "seq_len", task.seq_len, "a length of");
  std::vector<MemoryPart> parts = {
      {fmt::format("the embedding of {} x {}",
                   size_in_words(config, "vocab", task.vocab, "a vocabulary of"), width),
       bytes * (size.embedding + size.head)},
      {fmt::format("positions of {} x {}", length, width), bytes * size.positions},
      {fmt::format("model.n_layers = {} blocks of {}, the largest part of each {}", model.n_layers,
                   width, size.largest_of_block),
       bytes * size.blocks + bytes_of_number * size.buffers}};
  if (use != MemoryUse::training) return parts;

  const TrainOptions& train = config.train;
  const double sequences = std::ceil(static_cast<double>(train.batch_size) / ranks);
  const double at_once = std::ceil(sequences / static_cast<double>(train.accumulation_steps));
  const auto positions = static_cast<double>(task.seq_len);
  parts.push_back(
      {fmt::format("activations of train.batch_size = {} / train.accumulation_steps = {} "
                   "sequences, {}, {}, model.n_layers = {}",
                   train.batch_size, train.accumulation_steps, length, width, model.n_layers),
       bytes_of_number * at_once * positions * static_cast<double>(model.n_layers) *
           kept_by_block(model)});
  parts.push_back({fmt::format("a batch of train.batch_size = {}, {}", train.batch_size, length),
                   2 * bytes_of_number * sequences * positions});
  return parts;
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

void require_memory(const std::vector<MemoryPart>& need, const std::optional<double>& available,
                    const std::string& place) {
  const double total = total_bytes(need);
  if (!available || total <= *available) return;
  std::vector<MemoryPart> parts = need;
  std::sort(parts.begin(), parts.end(),
            [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  std::string words;
  for (const MemoryPart& part : parts) {
    if (part.bytes < total / 10) continue;
    words +=
        fmt::format("{}{} for {}", words.empty() ? "" : "; ", format_bytes(part.bytes), part.what);
  }
  throw ConfigError("memory{}: at least {} are needed, but {} are available: {}",
                    place.empty() ? "" : " of " + place, format_bytes(total),
                    format_bytes(*available), words);
}

void require_memory(const std::vector<MemoryPart>& need, const Device& device) {
  const std::optional<std::size_t> own = allocator_for(device).available();
  if (!own) return require_memory(need, available_memory());
  require_memory(need, static_cast<double>(*own), to_string(device));
}

}  // namespace mobius
