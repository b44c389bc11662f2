#include "train/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/ops/copy.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/index.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/optim/finite.h"

namespace mobius {

namespace fs = std::filesystem;

using hdf5::check;
using hdf5::Handle;

namespace {

constexpr const char* rng_name = "philox4x32-10, counters from (seed, step)";

// ---- writing, by the HDF5 library

// Makes a file of about `size` bytes in memory, because HDF5 can neither finish nor give up a file
// that it fails to write to a disk.
Handle create_file_in_memory(std::size_t size) {
  constexpr std::size_t smallest_growth = 1 << 20;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set up HDF5");
  check(H5Pset_fapl_core(access, std::max(size / 8, smallest_growth), /*backing_store=*/false),
        "set up HDF5");
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "set up HDF5");
  check(H5Pset_userblock(creation, checksum_block_bytes), "set up HDF5");
  return Handle(H5Fcreate("checkpoint", H5F_ACC_TRUNC, creation, access), H5Fclose,
                "make a file in memory");
}

// Returns the bytes of such a file, valid while it is open and unchanged.
std::span<char> content_of(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "finish the file");
  void* memory = nullptr;
  check(H5Fget_vfd_handle(file, H5P_DEFAULT, &memory), "finish the file");
  // The size leaves out the user's block and the spare memory behind the file's end.
  const ssize_t size = check(H5Fget_file_image(file, nullptr, 0), "finish the file");
  return {*static_cast<char**>(memory), checksum_block_bytes + static_cast<std::size_t>(size)};
}

// A group that remembers the order in which its members were added.
Handle create_group(hid_t parent, const std::string& name) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "set up HDF5");
  check(H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "set up HDF5");
  return Handle(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose,
                "write group " + name);
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const std::string action = "write attribute " + name;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "set up HDF5");
  const Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, action);
  check(H5Awrite(attribute, type, value), action);
}

template <typename T>
void write_number(hid_t object, const std::string& name, T value) {
  write_attribute(object, name, hdf5::number_type<T>(), &value);
}

void write_text(hid_t object, const std::string& name, const std::string& value) {
  const char* text = value.c_str();
  write_attribute(object, name, hdf5::text_type(), &text);
}

void write_tensor(hid_t group, const NamedTensor& tensor) {
  const std::string action = "write " + tensor.name;
  const Shape& shape = tensor.value.shape();
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const Handle space(sizes.empty()
                         ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                     H5Sclose, action);
  const hid_t type = hdf5::stored_type(tensor.value.dtype());
  const Handle set(
      H5Dcreate2(group, tensor.name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose, action);
  write_text(set, "dtype", std::string(name_of(tensor.value.dtype())));
  std::vector<std::byte> host(tensor.value.bytes());
  copy_to_host(tensor.value.contiguous(), host.data());
  if (!host.empty()) check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, host.data()), action);
}

// Names such as "moment/parameter" of an optimiser lie in a group per moment.
void write_tensors(hid_t file, const std::string& name, const std::vector<NamedTensor>& tensors) {
  const Handle group = create_group(file, name);
  std::set<std::string> moments;
  for (const NamedTensor& tensor : tensors) {
    const std::size_t slash = tensor.name.find('/');
    const std::string moment = tensor.name.substr(0, slash);
    if (slash != std::string::npos && moments.insert(moment).second) create_group(group, moment);
    write_tensor(group, tensor);
  }
}

void write_tokenizer(hid_t file, const TokenizerModel& model) {
  const std::vector<std::uint8_t> bytes(model.bytes.begin(), model.bytes.end());
  write_tensor(file, {"tokenizer", Tensor::from(bytes, {std::ssize(bytes)})});
  const Handle set(H5Dopen2(file, "tokenizer", H5P_DEFAULT), H5Dclose, "write the tokenizer");
  write_text(set, "kind", model.kind);
}

void write_content(hid_t file, const CheckpointHeader& header, const CheckpointTensors& tensors) {
  write_text(file, "format", checkpoint_format);
  write_number<std::int64_t>(file, "format_version", checkpoint_version);
  write_number(file, "step", header.step);
  write_number(file, "next_batch", header.step);
  write_number(file, "seed", header.seed);
  write_text(file, "rng", rng_name);
  write_text(file, "config", header.config);
  write_number(file, "optimizer_steps", header.optimizer_steps);
  if (!header.data.empty()) write_text(file, "data", header.data);
  if (!header.instruction_set.empty()) write_text(file, "instruction_set", header.instruction_set);
  const Handle progress = create_group(file, "progress");
  for (const auto& [name, value] : header.progress) write_number(progress, name, value);
  write_tensors(file, "parameters", tensors.parameters);
  write_tensors(file, "buffers", tensors.buffers);
  write_tensors(file, "optimizer", tensors.optimizer);
  if (header.tokenizer) write_tokenizer(file, *header.tokenizer);
}

std::size_t total_bytes(const CheckpointTensors& tensors) {
  std::size_t total = 0;
  for (const auto* group : {&tensors.parameters, &tensors.buffers, &tensors.optimizer}) {
    for (const NamedTensor& tensor : *group) total += tensor.value.bytes();
  }
  return total;
}

// ---- reading

const fs::path& require_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw Error("{}: no such file", path.string());
  if (fs::is_directory(path, ignored))
    throw Error("{}: is a folder, not a checkpoint", path.string());
  return path;
}

// A file whose checksum is right, and its index.
struct OpenCheckpoint {
  explicit OpenCheckpoint(const fs::path& path) : file(require_file(path)) {
    verify_checksum(file);
    index = read_index(file);
  }

  void read(const PlacedTensor& stored, Tensor target, bool must_be_finite = true) const {
    std::vector<std::byte> host(target.bytes());
    file.read(stored.offset, host);
    const auto at = must_be_finite ? find_not_finite(host, stored.dtype) : std::nullopt;
    if (at) {
      throw Error("{}: '{}' holds a number that is not finite, at element {}", file.name(),
                  printable(stored.name), *at);
    }
    copy_from_host(host.data(), target);
    target.bump_version();
  }

  const InputFile file;
  CheckpointIndex index;
};

std::string enumerate(const std::vector<std::string>& names) {
  constexpr std::size_t most_shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_shown); ++i) {
    text += (i == 0 ? "'" : ", '") + printable(names[i]) + "'";
  }
  if (names.size() > most_shown) text += fmt::format(" and {} more", names.size() - most_shown);
  return text;
}

}  // namespace

CheckpointTensors tensors_of(const Module& model) {
  CheckpointTensors tensors;
  for (const auto& [name, value] : model.parameters()) {
    tensors.parameters.push_back({name, value.data()});
  }
  for (const auto& [name, value] : model.buffers()) tensors.buffers.push_back({name, value});
  return tensors;
}

CheckpointTensors tensors_of(const Module& model, const Optimizer& optimizer) {
  CheckpointTensors tensors = tensors_of(model);
  tensors.optimizer = optimizer.state();
  return tensors;
}

void save_checkpoint(const fs::path& path, const CheckpointHeader& header,
                     const CheckpointTensors& tensors) {
  PendingFile pending(path);
  {
    const hdf5::Quiet quiet;
    const Handle file = create_file_in_memory(total_bytes(tensors));
    write_content(file, header, tensors);
    const std::span<char> content = content_of(file);
    write_checksum(content);
    pending.write(content);
  }
  if (!pending.is_in_place()) verify_checksum(InputFile(pending.temporary()));
  pending.commit();
}

CheckpointHeader read_checkpoint_header(const fs::path& path) {
  const OpenCheckpoint checkpoint(path);
  CheckpointHeader header = checkpoint.index.header;
  if (const auto& tokenizer = checkpoint.index.tokenizer) {
    header.tokenizer->bytes.resize(static_cast<std::size_t>(numel(tokenizer->shape)));
    checkpoint.file.read(tokenizer->offset,
                         std::as_writable_bytes(std::span(header.tokenizer->bytes)));
  }
  return header;
}

std::vector<StoredTensor> list_parameters(const fs::path& path) {
  const OpenCheckpoint checkpoint(path);
  return {checkpoint.index.parameters.begin(), checkpoint.index.parameters.end()};
}

std::vector<NamedTensor> read_parameters(const fs::path& path) {
  const OpenCheckpoint checkpoint(path);
  std::vector<NamedTensor> tensors;
  for (const PlacedTensor& stored : checkpoint.index.parameters) {
    tensors.push_back({stored.name, Tensor::empty(stored.shape, stored.dtype)});
    checkpoint.read(stored, tensors.back().value);
  }
  return tensors;
}

std::vector<std::string> differences(const std::vector<StoredTensor>& stored,
                                     const std::vector<NamedTensor>& wanted) {
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : stored) by_name[tensor.name] = &tensor;

  std::vector<std::string> missing, extra, found;
  for (const NamedTensor& tensor : wanted) {
    const auto entry = by_name.extract(tensor.name);
    if (entry.empty()) {
      missing.push_back(tensor.name);
      continue;
    }
    const StoredTensor& in_file = *entry.mapped();
    if (in_file.shape != tensor.value.shape() || in_file.dtype != tensor.value.dtype()) {
      found.push_back(fmt::format("'{}' is {} {} in the file and {} {} here",
                                  printable(tensor.name), name_of(in_file.dtype),
                                  to_string(in_file.shape), name_of(tensor.value.dtype()),
                                  to_string(tensor.value.shape())));
    }
  }
  for (const auto& [name, tensor] : by_name) extra.push_back(name);
  if (found.size() > 3) found.resize(3);
  if (!missing.empty()) found.push_back("the file lacks " + enumerate(missing));
  if (!extra.empty()) found.push_back("here there is no " + enumerate(extra));
  return found;
}

void load_checkpoint(const fs::path& path, const CheckpointTensors& tensors) {
  const OpenCheckpoint checkpoint(path);
  const CheckpointIndex& index = checkpoint.index;
  struct Group {
    const char* name;
    const std::vector<PlacedTensor>& stored;
    const std::vector<NamedTensor>& wanted;
    bool must_be_finite;
  };
  // Earlier versions saved moments that had overflowed.
  std::vector<Group> groups = {{"parameters", index.parameters, tensors.parameters, true},
                               {"buffers", index.buffers, tensors.buffers, true}};
  if (!tensors.optimizer.empty())
    groups.push_back({"optimizer", index.optimizer, tensors.optimizer, false});
  for (const Group& group : groups) {
    const auto found = differences({group.stored.begin(), group.stored.end()}, group.wanted);
    if (!found.empty()) {
      throw Error("{}: does not fit this configuration: in {}, {}", path.string(), group.name,
                  fmt::join(found, "; "));
    }
  }
  for (const Group& group : groups) {
    std::map<std::string_view, Tensor> targets;
    for (const auto& [name, value] : group.wanted) targets[name] = value;
    for (const PlacedTensor& stored : group.stored)
      checkpoint.read(stored, targets.at(stored.name), group.must_be_finite);
  }
}

}  // namespace mobius
