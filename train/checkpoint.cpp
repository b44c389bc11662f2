#include "train/checkpoint.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/backend.h"
#include "core/error.h"
#include "train/checkpoint_seal.h"
#include "train/file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* format_name = "mobius-checkpoint";
constexpr const char* rng_name = "philox4x32-10, counters from (seed, step)";

// ---- HDF5, with errors as exceptions

// Keeps the library from printing its error stack while one lives.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

// The innermost cause of the last failure; the system's own words where it has some.
std::string last_cause() {
  std::string cause = "unknown cause";
  const auto keep_first = [](unsigned depth, const H5E_error2_t* error, void* into) -> herr_t {
    if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(into) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &cause);
  constexpr std::string_view mark = "error message = '";
  const std::size_t begin = cause.find(mark);
  if (begin == std::string::npos) return cause;
  const std::size_t end = cause.find('\'', begin + mark.size());
  return cause.substr(begin + mark.size(), end - begin - mark.size());
}

// The result of an HDF5 call, or an Error that says what could not be done.
template <typename Result>
Result check(Result result, std::string_view action) {
  if (result < 0) throw Error("cannot {}: {}", action, last_cause());
  return result;
}

// An HDF5 identifier of any kind, released at the end of its scope.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close release, std::string_view action)
      : id_(check(id, action)), release_(release) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), release_(other.release_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) release_(id_);
  }

  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close release_;
};

// A file that lives in memory: what HDF5 itself fails to write to a disk it can neither finish nor
// give up, so it is left to write where it cannot fail. `size` is about what the file will need.
Handle create_file_in_memory(std::size_t size) {
  constexpr std::size_t smallest_growth = 1 << 20;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set up HDF5");
  check(H5Pset_fapl_core(access, std::max(size / 8, smallest_growth), /*backing_store=*/false),
        "set up HDF5");
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "set up HDF5");
  check(H5Pset_userblock(creation, seal_bytes), "set up HDF5");
  return Handle(H5Fcreate("checkpoint", H5F_ACC_TRUNC, creation, access), H5Fclose,
                "make a file in memory");
}

// The bytes of such a file, from its first to its last. Valid while it is open and unchanged.
std::span<char> content_of(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "finish the file");
  void* memory = nullptr;
  check(H5Fget_vfd_handle(file, H5P_DEFAULT, &memory), "finish the file");
  // Without the user's block, and without the spare memory behind the file's end.
  const ssize_t size = check(H5Fget_file_image(file, nullptr, 0), "finish the file");
  return {*static_cast<char**>(memory), seal_bytes + static_cast<std::size_t>(size)};
}

// Locks are of no use on files that are complete before they have a name, and fail on some network
// file systems.
Handle access_without_locks() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "set up HDF5");
  check(H5Pset_file_locking(access, false, true), "set up HDF5");
  return access;
}

Handle open_file(const fs::path& path) {
  return Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_without_locks()), H5Fclose,
                "open the file");
}

// A group that remembers the order in which its members were added.
Handle create_group(hid_t parent, const std::string& name) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "set up HDF5");
  check(H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "set up HDF5");
  return Handle(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose,
                "write group " + name);
}

Handle open_group(hid_t parent, const std::string& name) {
  return Handle(H5Gopen2(parent, name.c_str(), H5P_DEFAULT), H5Gclose, "read group " + name);
}

std::vector<std::string> member_names(hid_t group) {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->emplace_back(name);
    return 0;
  };
  check(H5Literate(group, H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect, &names),
        "list a group");
  return names;
}

// ---- attributes

template <typename T>
hid_t native_type() {
  if constexpr (std::is_same_v<T, double>)
    return H5T_NATIVE_DOUBLE;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return H5T_NATIVE_UINT64;
  else
    return H5T_NATIVE_INT64;
}

template <typename T>
hid_t file_type() {
  if constexpr (std::is_same_v<T, double>)
    return H5T_IEEE_F64LE;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return H5T_STD_U64LE;
  else
    return H5T_STD_I64LE;
}

Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "set up HDF5");
  check(H5Tset_size(type, H5T_VARIABLE), "set up HDF5");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "set up HDF5");
  return type;
}

void write_attribute(hid_t object, const std::string& name, hid_t stored, hid_t native,
                     const void* value) {
  const std::string action = "write attribute " + name;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "set up HDF5");
  const Handle attribute(H5Acreate2(object, name.c_str(), stored, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, action);
  check(H5Awrite(attribute, native, value), action);
}

template <typename T>
void write_number(hid_t object, const std::string& name, T value) {
  write_attribute(object, name, file_type<T>(), native_type<T>(), &value);
}

void write_text(hid_t object, const std::string& name, const std::string& value) {
  const Handle type = text_type();
  const char* text = value.c_str();
  write_attribute(object, name, type, type, &text);
}

Handle open_attribute(hid_t object, const std::string& name) {
  return Handle(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, "read attribute " + name);
}

template <typename T>
T read_number(hid_t object, const std::string& name) {
  T value{};
  check(H5Aread(open_attribute(object, name), native_type<T>(), &value), "read attribute " + name);
  return value;
}

std::string read_text(hid_t object, const std::string& name) {
  const Handle attribute = open_attribute(object, name);
  char* text = nullptr;
  check(H5Aread(attribute, text_type(), &text), "read attribute " + name);
  const std::unique_ptr<char, void (*)(void*)> owner(text,
                                                     [](void* memory) { H5free_memory(memory); });
  return text == nullptr ? std::string() : std::string(text);
}

std::map<std::string, double> read_progress(hid_t file) {
  const Handle group = open_group(file, "progress");
  std::map<std::string, double> progress;
  const auto collect = [](hid_t object, const char* name, const H5A_info_t*, void* into) -> herr_t {
    double value = 0;
    const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    const herr_t result = H5Aread(attribute, H5T_NATIVE_DOUBLE, &value);
    H5Aclose(attribute);
    (*static_cast<std::map<std::string, double>*>(into))[name] = value;
    return result;
  };
  check(H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &progress),
        "read group progress");
  return progress;
}

// ---- tensors

hid_t stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return H5T_IEEE_F32LE;
    case DType::f64:
      return H5T_IEEE_F64LE;
    case DType::bf16:
      return H5T_STD_U16LE;
    case DType::i32:
      return H5T_STD_I32LE;
    case DType::i64:
      return H5T_STD_I64LE;
    case DType::u8:
      break;
  }
  return H5T_STD_U8LE;
}

void write_tensor(hid_t group, const NamedTensor& tensor) {
  const std::string action = "write " + tensor.name;
  const Shape& shape = tensor.value.shape();
  const std::vector<hsize_t> sizes(shape.begin(), shape.end());
  const Handle space(sizes.empty()
                         ? H5Screate(H5S_SCALAR)
                         : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                     H5Sclose, action);
  const hid_t type = stored_type(tensor.value.dtype());
  const Handle set(
      H5Dcreate2(group, tensor.name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose, action);
  write_text(set, "dtype", std::string(name_of(tensor.value.dtype())));
  std::vector<std::byte> host(tensor.value.bytes());
  backend_for(tensor.value.device()).copy_to_host(tensor.value.contiguous(), host.data());
  if (!host.empty()) check(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, host.data()), action);
}

void write_tensors(hid_t file, const std::string& name, const std::vector<NamedTensor>& tensors) {
  const Handle group = create_group(file, name);
  for (const NamedTensor& tensor : tensors) write_tensor(group, tensor);
}

// "moment/parameter": one group a moment.
void write_optimizer(hid_t file, const std::vector<NamedTensor>& tensors) {
  const Handle group = create_group(file, "optimizer");
  std::set<std::string> moments;
  for (const NamedTensor& tensor : tensors) {
    const std::string moment = tensor.name.substr(0, tensor.name.find('/'));
    if (moments.insert(moment).second) create_group(group, moment);
    write_tensor(group, tensor);
  }
}

Handle open_set(hid_t group, const std::string& name) {
  return Handle(H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, "read " + name);
}

StoredTensor describe_set(hid_t group, const std::string& name) {
  const Handle set = open_set(group, name);
  const Handle space(H5Dget_space(set), H5Sclose, "read " + name);
  const int ndim = check(H5Sget_simple_extent_ndims(space), "read " + name);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(ndim));
  check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), "read " + name);
  return {name, Shape(sizes.begin(), sizes.end()), dtype_from_name(read_text(set, "dtype"))};
}

// The data sets of a group and of the groups below it, by path.
std::vector<StoredTensor> list_sets(hid_t file, const std::string& group_name) {
  const Handle group = open_group(file, group_name);
  std::vector<StoredTensor> sets;
  for (const std::string& name : member_names(group)) {
    H5O_info_t info;
    check(H5Oget_info_by_name(group, name.c_str(), &info, H5P_DEFAULT), "read " + name);
    if (info.type == H5O_TYPE_DATASET) {
      sets.push_back(describe_set(group, name));
      continue;
    }
    for (StoredTensor& set : list_sets(group, name)) {
      set.name = name + "/" + set.name;
      sets.push_back(std::move(set));
    }
  }
  return sets;
}

void read_tensor(hid_t group, Tensor target, const std::string& name) {
  std::vector<std::byte> host(target.bytes());
  const Handle set = open_set(group, name);
  if (!host.empty()) {
    check(H5Dread(set, stored_type(target.dtype()), H5S_ALL, H5S_ALL, H5P_DEFAULT, host.data()),
          "read " + name);
  }
  backend_for(target.device()).copy_from_host(host.data(), target);
  target.bump_version();
}

// ---- the tokeniser

constexpr const char* tokenizer_name = "tokenizer";

void write_tokenizer(hid_t file, const TokenizerModel& model) {
  const std::vector<std::uint8_t> bytes(model.bytes.begin(), model.bytes.end());
  write_tensor(file, {tokenizer_name, Tensor::from(bytes, {std::ssize(bytes)})});
  write_text(open_set(file, tokenizer_name), "kind", model.kind);
}

std::optional<TokenizerModel> read_tokenizer(hid_t file) {
  if (check(H5Lexists(file, tokenizer_name, H5P_DEFAULT), "read the tokenizer") == 0)
    return std::nullopt;
  const Tensor bytes = Tensor::empty(describe_set(file, tokenizer_name).shape, DType::u8);
  read_tensor(file, bytes, tokenizer_name);
  const std::vector<std::uint8_t> values = bytes.to_vector<std::uint8_t>();
  return TokenizerModel{read_text(open_set(file, tokenizer_name), "kind"),
                        {values.begin(), values.end()}};
}

// ---- does a file fit?

std::string enumerate(const std::vector<std::string>& names) {
  constexpr std::size_t most_shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_shown); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  if (names.size() > most_shown) text += fmt::format(" and {} more", names.size() - most_shown);
  return text;
}

struct TensorGroup {
  const char* name;
  const std::vector<NamedTensor>& tensors;
};

std::vector<TensorGroup> groups_to_load(const CheckpointTensors& tensors) {
  std::vector<TensorGroup> groups = {{"parameters", tensors.parameters},
                                     {"buffers", tensors.buffers}};
  if (!tensors.optimizer.empty()) groups.push_back({"optimizer", tensors.optimizer});
  return groups;
}

// Runs `fn` on a verified, opened file; whatever goes wrong names the file.
template <typename Fn>
auto with_file(const fs::path& path, Fn&& fn) {
  verify_seal(path);
  const QuietHdf5 quiet;
  try {
    const Handle file = open_file(path);
    if (read_text(file, "format") != format_name) throw Error("not a Mobius checkpoint");
    return fn(static_cast<hid_t>(file));
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
}

void write_content(hid_t file, const CheckpointHeader& header, const CheckpointTensors& tensors) {
  write_text(file, "format", format_name);
  write_number<std::int64_t>(file, "format_version", checkpoint_version);
  write_number(file, "step", header.step);
  write_number(file, "next_batch", header.step);
  write_number(file, "seed", header.seed);
  write_text(file, "rng", rng_name);
  write_text(file, "config", header.config);
  write_number(file, "optimizer_steps", header.optimizer_steps);
  if (!header.data.empty()) write_text(file, "data", header.data);
  {
    const Handle progress = create_group(file, "progress");
    for (const auto& [name, value] : header.progress) write_number(progress, name, value);
  }
  write_tensors(file, "parameters", tensors.parameters);
  write_tensors(file, "buffers", tensors.buffers);
  write_optimizer(file, tensors.optimizer);
  if (header.tokenizer) write_tokenizer(file, *header.tokenizer);
}

std::size_t total_bytes(const CheckpointTensors& tensors) {
  std::size_t total = 0;
  for (const auto* group : {&tensors.parameters, &tensors.buffers, &tensors.optimizer}) {
    for (const NamedTensor& tensor : *group) total += tensor.value.bytes();
  }
  return total;
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
    const QuietHdf5 quiet;
    const Handle file = create_file_in_memory(total_bytes(tensors));
    write_content(file, header, tensors);
    const std::span<char> content = content_of(file);
    seal(content);
    pending.write(content);
  }
  if (!pending.is_in_place()) verify_seal(pending.temporary());
  pending.commit();
}

CheckpointHeader read_checkpoint_header(const fs::path& path) {
  return with_file(path, [](hid_t file) {
    CheckpointHeader header;
    header.step = read_number<std::int64_t>(file, "step");
    header.seed = read_number<std::uint64_t>(file, "seed");
    header.config = read_text(file, "config");
    header.optimizer_steps = read_number<std::int64_t>(file, "optimizer_steps");
    header.progress = read_progress(file);
    header.tokenizer = read_tokenizer(file);
    if (check(H5Aexists(file, "data"), "read attribute data") > 0)
      header.data = read_text(file, "data");
    return header;
  });
}

std::vector<StoredTensor> list_parameters(const fs::path& path) {
  return with_file(path, [](hid_t file) { return list_sets(file, "parameters"); });
}

std::vector<NamedTensor> read_parameters(const fs::path& path) {
  return with_file(path, [](hid_t file) {
    std::vector<NamedTensor> tensors;
    const Handle group = open_group(file, "parameters");
    for (const StoredTensor& stored : list_sets(file, "parameters")) {
      tensors.push_back({stored.name, Tensor::empty(stored.shape, stored.dtype)});
      read_tensor(group, tensors.back().value, stored.name);
    }
    return tensors;
  });
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
      found.push_back(fmt::format("'{}' is {} {} in the file and {} {} here", tensor.name,
                                  name_of(in_file.dtype), to_string(in_file.shape),
                                  name_of(tensor.value.dtype()), to_string(tensor.value.shape())));
    }
  }
  for (const auto& [name, tensor] : by_name) extra.push_back(name);
  if (found.size() > 3) found.resize(3);
  if (!missing.empty()) found.push_back("the file lacks " + enumerate(missing));
  if (!extra.empty()) found.push_back("here there is no " + enumerate(extra));
  return found;
}

void load_checkpoint(const fs::path& path, const CheckpointTensors& tensors) {
  with_file(path, [&](hid_t file) {
    for (const auto& [name, group] : groups_to_load(tensors)) {
      const std::vector<std::string> found = differences(list_sets(file, name), group);
      if (!found.empty()) {
        throw Error("does not fit this configuration: in {}, {}", name, fmt::join(found, "; "));
      }
    }
    for (const auto& [name, group] : groups_to_load(tensors)) {
      const Handle opened = open_group(file, name);
      for (const NamedTensor& tensor : group) read_tensor(opened, tensor.value, tensor.name);
    }
  });
}

}  // namespace mobius
