// Checkpoints: HDF5 files that are whole or absent.
//
// A file starts with a block of 512 bytes of text that HDF5 leaves to its user: format and version,
// the size of the file, and a checksum of everything after the block. It is verified before
// anything else is read, so a truncated, altered or foreign file is named as such. What follows is
// plain HDF5 (Python: h5py.File(path)["parameters"]["embedding.weight"][:]):
//
//   attributes        format, format_version, step, config (the resolved YAML), seed, rng,
//                     next_batch, optimizer_steps, data (a fingerprint, if the task reads
//                     files), instruction_set (of the processor that computed it)
//   /progress         attributes: what the run has measured so far
//   /parameters/NAME  one data set a parameter, by dotted path
//   /buffers/NAME
//   /optimizer/MOMENT/NAME
//   /tokenizer        the bytes of the TokenizerModel, if the task reads text; attribute: kind
//
// Every data set has an attribute `dtype`; bf16 is kept as its 16 bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "train/optim/optimizer.h"

namespace mobius {

inline constexpr int checkpoint_version = 1;

/// What a checkpoint says about its run. Seed and step determine all random numbers of a run and
/// its place in the data.
struct CheckpointHeader {
  std::int64_t step = 0;  ///< training steps done
  std::uint64_t seed = 0;
  std::string config;                      ///< resolved configuration, as YAML
  std::int64_t optimizer_steps = 0;        ///< steps the optimiser's state has seen
  std::map<std::string, double> progress;  ///< by name, for instance "train_seconds"
  std::optional<TokenizerModel> tokenizer{};
  std::string data{};             ///< Task::fingerprint()
  std::string instruction_set{};  ///< as instruction_set() names it; empty: not known
};

/// Handles to the tensors of a run, to be written or filled in place, with the names that the
/// module and the optimiser give them.
struct CheckpointTensors {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  std::vector<NamedTensor> optimizer;
};
CheckpointTensors tensors_of(const Module& model, const Optimizer& optimizer);
/// Leaves out the optimiser's state.
CheckpointTensors tensors_of(const Module& model);

/// A tensor in a file.
struct StoredTensor {
  std::string name;
  Shape shape;
  DType dtype;
};

/// Writes the file beside its place, reads it back against its checksum, and only then puts it in
/// place. Throws Error, leaving any earlier file as it was.
void save_checkpoint(const std::filesystem::path& path, const CheckpointHeader& header,
                     const CheckpointTensors& tensors);

/// Throws Error in one line if the file is missing, not a checkpoint, truncated, damaged, or
/// written by a newer version. A file made to harm, with a right checksum, is at worst such an
/// error or the checkpoint of another run: train/checkpoint/index.h.
CheckpointHeader read_checkpoint_header(const std::filesystem::path& path);
/// Lists the tensors under /parameters in the order of the model. Throws as above.
std::vector<StoredTensor> list_parameters(const std::filesystem::path& path);
/// Reads them with their values. Throws Error also if a value is not finite.
std::vector<NamedTensor> read_parameters(const std::filesystem::path& path);

/// Tells what keeps stored tensors from filling `wanted`: missing or additional names, other
/// shapes, other types. Returns nothing if they fit.
std::vector<std::string> differences(const std::vector<StoredTensor>& stored,
                                     const std::vector<NamedTensor>& wanted);

/// Fills every tensor from the file, in place, but not the optimiser's state if `optimizer` is
/// empty. Throws Error that names the differences, and changes nothing, unless the names, shapes
/// and types are those of the file. Throws Error if a parameter or a buffer is not finite; some
/// tensors have then been filled.
void load_checkpoint(const std::filesystem::path& path, const CheckpointTensors& tensors);

// ---- the checkpoints of a run: FOLDER/step-00000100.h5, ..., and FOLDER/best.h5

/// The folder of checkpoints in a run's folder.
std::filesystem::path checkpoints_of_run(const std::filesystem::path& run);
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::int64_t step);
std::filesystem::path best_checkpoint(const std::filesystem::path& folder);
/// Compares the steps of two step files of one folder.
bool is_earlier(const std::filesystem::path& a, const std::filesystem::path& b);
/// Lists the step files in the folder, oldest first.
std::vector<std::filesystem::path> step_checkpoints(const std::filesystem::path& folder);

struct NewestCheckpoint {
  std::optional<std::filesystem::path> path;
  std::vector<std::string> skipped;  ///< one line for each newer file that cannot be used
};
/// Finds the newest complete checkpoint in the folder, or best.h5 if no step file can be used.
/// Throws UnreadableFile if a file that may be it cannot be read.
NewestCheckpoint newest_checkpoint(const std::filesystem::path& folder);

/// Searches a run's folder or a folder of checkpoints and sets `path`. Throws Error if it holds no
/// complete checkpoint.
NewestCheckpoint newest_checkpoint_in(const std::filesystem::path& place);

/// Finds the checkpoint that a user means by a path: the file itself or, in a folder as above,
/// best.h5, else the newest complete one. Throws Error if the folder holds none.
std::filesystem::path find_checkpoint(const std::filesystem::path& place);

/// Removes the step files up to `step`, except the `keep` newest. Later ones do not count, because
/// a run at `step` cannot use them.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t step, std::int64_t keep);

}  // namespace mobius
