#include "train/checkpoint/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/isolated.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/hdf5.h"
#include "train/io/printable.h"

namespace mobius {

using Json = nlohmann::json;

static void to_json(Json& name, DType dtype) { name = name_of(dtype); }
static void from_json(const Json& name, DType& dtype) {
  dtype = dtype_from_name(name.get<std::string>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlacedTensor, name, dtype, shape, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointHeader, step, seed, config, optimizer_steps, progress,
                                   data, instruction_set)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointIndex, header, parameters, buffers, optimizer)

namespace {

constexpr std::size_t longest_text = std::size_t{16} << 20;  // of an attribute, in bytes
constexpr std::size_t longest_name = 1000;
constexpr std::size_t most_members = 1'000'000;  // of a group
constexpr hsize_t most_progress_values = 1000;
constexpr std::int64_t last_step = std::int64_t{1} << 53;  // steps are also kept as doubles

[[noreturn]] void refuse(const std::string& name, std::string_view problem) {
  throw Error("damaged: {} {}", printable(name), problem);
}

void require(bool condition, const std::string& name, std::string_view problem) {
  if (!condition) refuse(name, problem);
}

// Throws Error unless there is such an element type.
DType element_type(const std::string& text, const std::string& name) {
  try {
    return dtype_from_name(text);
  } catch (const Error&) {
    refuse(name, "has elements of a type that there is not");
  }
}

// ---- in a process of its own: the file as the HDF5 library sees it, as JSON

namespace in_child {

using hdf5::Handle;

// Returns the result of an HDF5 call about the thing `name`.
template <typename Result>
Result check(Result result, const std::string& name) {
  require(result >= 0, name, "cannot be read");
  return result;
}

Handle opened(hid_t id, Handle::Close release, const std::string& name) {
  return Handle(check(id, name), release, "");
}

// Opens an object of the file itself: no path, no link to another file, no other kind.
Handle open_object(hid_t parent, const std::string& name, H5I_type_t kind,
                   const std::string& shown) {
  require(H5Lexists(parent, name.c_str(), H5P_DEFAULT) > 0, shown, "is missing");
  H5L_info_t link;
  check(H5Lget_info(parent, name.c_str(), &link, H5P_DEFAULT), shown);
  require(link.type == H5L_TYPE_HARD, shown, "is a link, expected the thing itself");
  Handle object = opened(H5Oopen(parent, name.c_str(), H5P_DEFAULT), H5Oclose, shown);
  require(H5Iget_type(object) == kind, shown,
          kind == H5I_GROUP ? "is not a group" : "is not a tensor");
  return object;
}

bool is_scalar(hid_t attribute, const std::string& shown) {
  const Handle space = opened(H5Aget_space(attribute), H5Sclose, shown);
  return H5Sget_simple_extent_type(space) == H5S_SCALAR;
}

template <typename T>
T number_in(hid_t attribute, const std::string& shown) {
  const Handle type = opened(H5Aget_type(attribute), H5Tclose, shown);
  require(is_scalar(attribute, shown) && H5Tequal(type, hdf5::number_type<T>()) > 0, shown,
          std::is_same_v<T, double> ? "is not one 64-bit number" : "is not one 64-bit integer");
  T value{};
  check(H5Aread(attribute, type, &value), shown);
  return value;
}

std::string in_words(const std::string& object, const std::string& attribute) {
  return fmt::format("attribute '{}'{}", attribute, object.empty() ? "" : " of " + object);
}

bool has_attribute(hid_t object, const std::string& name) {
  return check(H5Aexists(object, name.c_str()), in_words("", name)) > 0;
}

// `of` is the name of the object in messages, empty for the file itself.
Handle open_attribute(hid_t object, const std::string& name, const std::string& of) {
  const std::string shown = in_words(of, name);
  require(has_attribute(object, name), shown, "is missing");
  return opened(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, shown);
}

template <typename T>
T read_number(hid_t file, const std::string& name) {
  return number_in<T>(open_attribute(file, name, ""), in_words("", name));
}

std::string read_text(hid_t object, const std::string& name, const std::string& of = "") {
  const Handle attribute = open_attribute(object, name, of);
  const std::string shown = in_words(of, name);
  const Handle type = opened(H5Aget_type(attribute), H5Tclose, shown);
  require(is_scalar(attribute, shown) && H5Tis_variable_str(type) > 0, shown, "is not a text");
  char* text = nullptr;
  check(H5Aread(attribute, type, &text), shown);
  require(text != nullptr, shown, "cannot be read");
  const std::size_t size = ::strnlen(text, longest_text + 1);
  require(size <= longest_text, shown, "is too long");
  std::string copy(text, size);
  H5free_memory(text);
  return copy;
}

// Returns "" if there is none.
std::string read_optional_text(hid_t file, const std::string& name) {
  return has_attribute(file, name) ? read_text(file, name) : "";
}

std::map<std::string, double> read_progress(hid_t file) {
  const std::string shown = "group 'progress'";
  const Handle group = open_object(file, "progress", H5I_GROUP, shown);
  H5O_info_t info;
  check(H5Oget_info(group, &info), shown);
  require(info.num_attrs <= most_progress_values, shown, "has too many attributes");
  std::map<std::string, double> values;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const Handle attribute =
        opened(H5Aopen_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
               H5Aclose, shown);
    std::string name(longest_name + 1, '\0');
    const ssize_t size = check(H5Aget_name(attribute, name.size(), name.data()), shown);
    require(static_cast<std::size_t>(size) <= longest_name, shown, "has a name that is too long");
    name.resize(static_cast<std::size_t>(size));
    values[name] = number_in<double>(attribute, in_words(shown, name));
  }
  return values;
}

// Describes a data set that lies in the file row-major and in one piece.
PlacedTensor placed(hid_t set, const std::string& name, const std::string& shown) {
  const DType dtype = element_type(read_text(set, "dtype", shown), shown);
  const Handle type = opened(H5Dget_type(set), H5Tclose, shown);
  require(H5Tequal(type, hdf5::stored_type(dtype)) > 0, shown,
          "has elements of another type than its attribute 'dtype' says");
  const Handle layout = opened(H5Dget_create_plist(set), H5Pclose, shown);
  require(H5Pget_layout(layout) == H5D_CONTIGUOUS && H5Pget_external_count(layout) == 0 &&
              H5Pget_nfilters(layout) == 0,
          shown, "does not lie in this file in one piece, as it is");
  const Handle space = opened(H5Dget_space(set), H5Sclose, shown);
  const H5S_class_t kind = H5Sget_simple_extent_type(space);
  require(kind == H5S_SCALAR || kind == H5S_SIMPLE, shown, "has no shape");
  std::vector<hsize_t> sizes(
      static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space), shown)));
  check(H5Sget_simple_extent_dims(space, sizes.data(), nullptr), shown);
  const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  require(is_empty || H5Dget_storage_size(set) > 0, shown, "has no values");
  const haddr_t offset = is_empty ? 0 : H5Dget_offset(set);
  return {{name, Shape(sizes.begin(), sizes.end()), dtype}, offset};
}

// Returns the names in a group in the order in which they were added.
std::vector<std::string> members_of(hid_t group, const std::string& shown) {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    auto& found = *static_cast<std::vector<std::string>*>(into);
    found.emplace_back(name, ::strnlen(name, longest_name + 1));
    return found.size() > most_members ? -1 : 0;
  };
  check(H5Literate(group, H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect, &names), shown);
  for (const std::string& name : names) {
    require(!name.empty() && name != "." && name.size() <= longest_name &&
                name.find('/') == std::string::npos,
            shown, "has a name that no tensor has");
  }
  return names;
}

Handle open_group(hid_t parent, const std::string& name, const std::string& path) {
  return open_object(parent, name, H5I_GROUP, fmt::format("group '{}'", path));
}

// Adds the tensors of the group `name`; `prefix` goes before their names.
void add_tensors(hid_t parent, const std::string& name, const std::string& path,
                 const std::string& prefix, std::vector<PlacedTensor>& tensors) {
  const Handle group = open_group(parent, name, path);
  for (const std::string& member : members_of(group, fmt::format("group '{}'", path))) {
    const std::string shown = fmt::format("'{}/{}'", path, member);
    const Handle set = open_object(group, member, H5I_DATASET, shown);
    tensors.push_back(placed(set, prefix + member, shown));
  }
}

std::vector<PlacedTensor> read_tensors(hid_t file, const std::string& name) {
  std::vector<PlacedTensor> tensors;
  add_tensors(file, name, name, "", tensors);
  return tensors;
}

// The optimiser has one group per moment.
std::vector<PlacedTensor> read_optimizer(hid_t file) {
  std::vector<PlacedTensor> tensors;
  const Handle group = open_group(file, "optimizer", "optimizer");
  for (const std::string& moment : members_of(group, "group 'optimizer'"))
    add_tensors(group, moment, "optimizer/" + moment, moment + "/", tensors);
  return tensors;
}

Json read_tokenizer(hid_t file) {
  const std::string name = "tokenizer", shown = "'tokenizer'";
  if (check(H5Lexists(file, name.c_str(), H5P_DEFAULT), shown) == 0) return nullptr;
  const Handle set = open_object(file, name, H5I_DATASET, shown);
  Json tokenizer = placed(set, name, shown);
  tokenizer["kind"] = read_text(set, "kind", shown);
  return tokenizer;
}

// Files are complete before they have a name, so they need no locks, which fail on some network
// file systems.
Handle open_file(int descriptor) {
  const Handle access = opened(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "the file");
  check(H5Pset_file_locking(access, false, true), "the file");
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  return opened(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "the file");
}

Json read(int descriptor) {
  const hdf5::Quiet quiet;
  H5PLset_loading_state(0);  // loads no plugins that the file asks for
  const Handle file = open_file(descriptor);
  if (read_text(file, "format") != checkpoint_format) throw Error("not a Mobius checkpoint");
  Json answer = CheckpointIndex{
      .header = {.step = read_number<std::int64_t>(file, "step"),
                 .seed = read_number<std::uint64_t>(file, "seed"),
                 .config = read_text(file, "config"),
                 .optimizer_steps = read_number<std::int64_t>(file, "optimizer_steps"),
                 .progress = read_progress(file),
                 .data = read_optional_text(file, "data"),
                 .instruction_set = read_optional_text(file, "instruction_set")},
      .parameters = read_tensors(file, "parameters"),
      .buffers = read_tensors(file, "buffers"),
      .optimizer = read_optimizer(file),
      .tokenizer = {}};
  answer["next_batch"] = read_number<std::int64_t>(file, "next_batch");
  answer["tokenizer"] = read_tokenizer(file);
  return answer;
}

}  // namespace in_child

// ---- in this process: whether what the child says can be

void require_steps(const char* name, std::int64_t steps, std::int64_t most) {
  if (steps < 0 || steps > most)
    throw Error("damaged: attribute '{}' is {}, expected 0 to {}", name, steps, most);
}

void require_in_range(const CheckpointHeader& header) {
  require_steps("step", header.step, last_step);
  require_steps("optimizer_steps", header.optimizer_steps, header.step);
  for (const auto& [name, value] : header.progress) {
    require(!(value < 0), fmt::format("attribute '{}' of group 'progress'", name), "is negative");
  }
}

// Bytes [begin, end) of the file.
struct Extent {
  std::uint64_t begin, end;
  const PlacedTensor* tensor;
};

// The bytes of a tensor lie between the block of the checksum and the end of the file.
Extent extent_of(const PlacedTensor& tensor, std::uint64_t file_size) {
  const std::uint64_t most = file_size / size_of(tensor.dtype);
  std::uint64_t elements = 0;
  try {
    elements = static_cast<std::uint64_t>(numel(tensor.shape));
  } catch (const Error&) {
    elements = most + 1;  // too many to count
  }
  require(elements <= most, "'" + tensor.name + "'", "is larger than the file");
  const std::uint64_t bytes = elements * size_of(tensor.dtype);
  if (bytes == 0) return {checksum_block_bytes, checksum_block_bytes, &tensor};
  require(tensor.offset >= checksum_block_bytes && tensor.offset <= file_size - bytes,
          "'" + tensor.name + "'", "lies beyond the file");
  return {tensor.offset, tensor.offset + bytes, &tensor};
}

void require_apart(const CheckpointIndex& index, std::uint64_t file_size) {
  std::vector<Extent> extents;
  for (const auto* group : {&index.parameters, &index.buffers, &index.optimizer}) {
    for (const PlacedTensor& tensor : *group) extents.push_back(extent_of(tensor, file_size));
  }
  if (index.tokenizer) extents.push_back(extent_of(*index.tokenizer, file_size));
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin >= extents[i - 1].end) continue;
    refuse(fmt::format("'{}' and '{}'", extents[i - 1].tensor->name, extents[i].tensor->name),
           "lie in the same place");
  }
}

CheckpointIndex index_in(const Json& object, std::uint64_t file_size) {
  auto index = object.get<CheckpointIndex>();
  require_in_range(index.header);
  require(object.at("next_batch") == index.header.step, "attribute 'next_batch'",
          "is not that of the step");
  if (const Json& tokenizer = object.at("tokenizer"); !tokenizer.is_null()) {
    index.header.tokenizer = TokenizerModel{tokenizer.at("kind").get<std::string>(), ""};
    index.tokenizer = tokenizer.get<PlacedTensor>();
    require(index.tokenizer->dtype == DType::u8 && index.tokenizer->shape.size() == 1,
            "'tokenizer'", "is not a list of bytes");
  }
  require_apart(index, file_size);
  return index;
}

// Allows a few times what the library needs: 50 microseconds for a tensor of at least 500 bytes.
IsolationLimits limits_for(std::uint64_t file_size) {
  constexpr std::uint64_t bytes_a_second = std::uint64_t{4} << 20, most_seconds = 10;
  return {.processor =
              std::chrono::seconds(std::min(1 + file_size / bytes_a_second, most_seconds))};
}

}  // namespace

CheckpointIndex read_index(const InputFile& file) {
  try {
    const auto answer = [&file] {
      std::string bytes;
      Json::to_cbor(in_child::read(file.descriptor()), bytes);
      return bytes;
    };
    const IsolatedResult result = run_isolated(answer, limits_for(file.size()));
    if (!result.answer) throw Error("damaged: the HDF5 library cannot read it");
    return index_in(Json::from_cbor(*result.answer), file.size());
  } catch (const NoProcess& error) {
    throw UnreadableFile("{}: cannot be read: {}", file.name(), error.what());
  } catch (const Error& error) {
    throw Error("{}: {}", file.name(), error.what());
  } catch (const Json::exception&) {
    throw Error("{}: damaged: the HDF5 library misreads it", file.name());
  }
}

}  // namespace mobius
