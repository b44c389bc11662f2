#include "train/run/start.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "data/input_file.h"
#include "train/run/device.h"
#include "train/run/experiment.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

void say_skipped(const NewestCheckpoint& newest, Progress& progress) {
  for (const std::string& line : newest.skipped) progress.say("resume: skipped " + line);
}

// Returns an empty path if the run begins.
fs::path find_file(const RunFolder& folder, const Resume& resume, Progress& progress) {
  if (resume.from != Resume::From::newest) return resume.file;
  const NewestCheckpoint newest = newest_checkpoint(folder.checkpoints());
  say_skipped(newest, progress);
  if (!newest.path) progress.say("resume: no complete checkpoint, starting from step 0");
  return newest.path.value_or("");
}

// The places of data may change. build_task_of() checks that the data did not.
void require_same_run(Config& stored, Config& config, const fs::path& path, Progress& progress) {
  for (const ConfigChange& change : changes(stored, config)) {
    if (!may_change_on_resume(config, change.key)) {
      throw ConfigError("{}: was made with {} = {}, but the configuration says {}", path.string(),
                        change.key, change.before.empty() ? "(absent)" : change.before,
                        change.after.empty() ? "(absent)" : change.after);
    }
    if (!change.key.starts_with("output.")) {
      progress.say(
          fmt::format("resume: {} was {}, now {}", change.key, change.before, change.after));
    }
  }
}

// A text that has changed may have other characters or pieces, so its tokens mean others.
void require_same_tokenizer(const Start& start, const Task& task) {
  const std::optional<TokenizerModel>& before = start.header.tokenizer;
  const std::optional<TokenizerModel> now = tokenizer_model(task);
  if (now == before) return;
  const auto words = [](const std::optional<TokenizerModel>& model) {
    return model ? fmt::format("a {} tokenizer of {} tokens", model->kind,
                               make_tokenizer(*model)->vocab_size())
                 : std::string("no tokenizer");
  };
  throw ConfigError("{}: was made with {}, but the text now gives {}{}", start.path.string(),
                    words(before), words(now), words(now) == words(before) ? ", others" : "");
}

// Builds the task with the tokeniser of the checkpoint, or nothing if its text does not fit.
std::unique_ptr<Task> rebuild_task(const Start& start, const Config& config) {
  if (!start.header.tokenizer) return nullptr;
  try {
    auto task = build_task(config, start.header.tokenizer);
    return data_difference(start.header, *task).empty() ? std::move(task) : nullptr;
  } catch (const UnreadableFile&) {
    throw;
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Resume with_file(Resume resume, Progress& progress, Communicator& communicator) {
  if (resume.from != Resume::From::file) return resume;
  if (communicator.is_root() && fs::is_directory(resume.file)) {
    const NewestCheckpoint newest = newest_checkpoint_in(resume.file);
    say_skipped(newest, progress);
    resume.file = *newest.path;
  }
  resume.file = communicator.broadcast(resume.file.string());
  read_checkpoint_header(resume.file);  // throws before all else
  return resume;
}

// The root decides, because a file may appear to one rank before another.
std::optional<Start> find_start(Config& config, const RunFolder& folder, const Resume& resume,
                                const Registries& known, Progress& progress,
                                Communicator& communicator) {
  const fs::path found = communicator.is_root() ? find_file(folder, resume, progress) : "";
  const fs::path path = communicator.broadcast(found.string());
  if (path.empty()) return std::nullopt;
  Start start{.path = path, .header = read_checkpoint_header(path)};
  const auto stored = parse_config(start.header.config, path.string(), known);
  require_same_run(*stored, config, path, progress);
  start.metric = stored->checkpoint.metric;
  progress.say(fmt::format("resume: step {} from {}", start.header.step, path.string()));
  const std::string made_with = start.header.instruction_set, now = computed_by(device_of(config));
  if (!made_with.empty() && made_with != now) {
    progress.say(fmt::format(
        "resume: was made with {}, now {}: results agree but for rounding, not to the bit",
        made_with, now));
  }
  return start;
}

// If the data have changed, building the task from them shows best how.
std::unique_ptr<Task> build_task_of(const Start& start, const Config& config) {
  if (auto task = rebuild_task(start, config)) return task;
  auto task = build_task(config);
  require_same_tokenizer(start, *task);
  const std::string difference = data_difference(start.header, *task);
  if (!difference.empty()) throw ConfigError("{}: {}", start.path.string(), difference);
  return task;
}

std::string data_difference(const CheckpointHeader& header, const Task& task) {
  const std::string now = task.fingerprint();
  if (header.data == now) return "";
  return fmt::format("was made with {}, but now there are {}",
                     header.data.empty() ? "data of no files" : header.data,
                     now.empty() ? "none" : now);
}

}  // namespace mobius
