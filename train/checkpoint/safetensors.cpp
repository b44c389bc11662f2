#include "train/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/ops/copy.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/optim/finite.h"

namespace mobius {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr const char* metadata_key = "__metadata__";
constexpr std::size_t size_bytes = 8;
constexpr std::uint64_t largest_header = std::uint64_t{16} << 20;
constexpr int deepest = 3;  // header, entry, shape
constexpr std::size_t most_dimensions = 32;

std::string_view type_name(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::bf16:
      return "BF16";
    default:
      throw Error("safetensors: expected real tensors, got {}", name_of(type));
  }
}

std::uint64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
}

// Of the 16 bits of a half-precision number: sign, 5 bits of exponent, 10 of fraction.
float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  float value;
  if (exponent == 0x1F) {
    value = fraction == 0 ? HUGE_VALF : std::nanf("");
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

Tensor from_halves(const char* bytes, const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(numel(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    values[i] = from_half(bits);
  }
  return Tensor::from(values, shape);
}

Tensor from_bytes(const char* bytes, const Shape& shape, DType type) {
  Tensor tensor = Tensor::empty(shape, type);
  copy_from_host(bytes, tensor);
  return tensor;
}

// An element type of the format, and how to read a tensor of it.
struct StoredType {
  std::string_view name;
  std::uint64_t size;
  Tensor (*read)(const char* bytes, const Shape& shape);
};

constexpr StoredType stored_types[] = {
    {"F32", 4, [](const char* b, const Shape& s) { return from_bytes(b, s, DType::f32); }},
    {"F64", 8, [](const char* b, const Shape& s) { return from_bytes(b, s, DType::f64); }},
    {"BF16", 2, [](const char* b, const Shape& s) { return from_bytes(b, s, DType::bf16); }},
    {"F16", 2, from_halves}};

const StoredType& stored_type(const std::string& name) {
  for (const StoredType& type : stored_types)
    if (type.name == name) return type;
  throw Error("expected F32, F64, BF16 or F16, got {}", printable(name));
}

// JSON in which no object has a key twice and nothing lies deeper than in a header. Throws Error.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Json parse() {
    try {
      return Json::parse(text_, [this](int depth, Json::parse_event_t event, Json& parsed) {
        return check(depth, event, parsed);
      });
    } catch (const Json::parse_error& error) {
      throw Error("its header is not valid JSON, from byte {} of {} on", error.byte, text_.size());
    } catch (const Json::out_of_range&) {
      throw Error("its header has a number that is too large");
    }
  }

 private:
  using Event = Json::parse_event_t;

  bool check(int depth, Event event, const Json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= deepest) throw Error("its header is nested too deeply");
      keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw Error("'{}' comes twice in its header", printable(parsed.get<std::string>()));
    }
    return true;
  }

  std::string_view text_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are not finished
};

// The value at a key of an entry, or an Error.
const Json& value_of(const Json& entry, const char* key) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (found == entry.end()) throw Error("it has no {}", key);
  return *found;
}

std::string text_in(const Json& value, const char* what) {
  if (!value.is_string()) throw Error("expected a text as {}", what);
  return value.get<std::string>();
}

// An array of at most `most` whole numbers from 0 to 2^63 - 1.
std::vector<std::int64_t> sizes_in(const Json& array, const char* what, std::size_t most) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!array.is_array() || array.size() > most)
    throw Error("expected at most {} numbers as {}", most, what);
  std::vector<std::int64_t> sizes;
  for (const Json& size : array) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > largest)
      throw Error("expected whole numbers of at least 0 as {}, got {}", what,
                  size.is_number() ? size.dump() : size.type_name());
    sizes.push_back(size.get<std::int64_t>());
  }
  return sizes;
}

// A tensor as the header describes it: bytes [begin, end) of those behind the header.
struct Entry {
  std::string name;
  const StoredType* type;
  Shape shape;
  std::uint64_t begin, end;
};

// `size` is that of the bytes behind the header.
Entry read_entry(const std::string& name, const Json& entry, std::uint64_t size) {
  const StoredType& type = stored_type(text_in(value_of(entry, "dtype"), "dtype"));
  const Shape shape = sizes_in(value_of(entry, "shape"), "shape", most_dimensions);
  const std::vector<std::int64_t> offsets =
      sizes_in(value_of(entry, "data_offsets"), "data_offsets", 2);
  if (offsets.size() != 2) throw Error("expected 2 numbers as data_offsets");
  const auto begin = static_cast<std::uint64_t>(offsets[0]),
             end = static_cast<std::uint64_t>(offsets[1]);
  if (begin > end || end > size || (end - begin) % type.size != 0 ||
      (end - begin) / type.size != static_cast<std::uint64_t>(numel(shape)))
    throw Error("bytes {} to {} of {} for {} {}", begin, end, size, type.name, to_string(shape));
  return {name, &type, shape, begin, end};
}

// In the order of their bytes. Throws unless they fill those behind the header, without gaps and
// without overlap.
void sort_gapless(std::vector<Entry>& entries, std::uint64_t size) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      throw Error("'{}' starts at byte {}, expected {}", printable(entry.name), entry.begin, end);
    end = entry.end;
  }
  if (end != size) throw Error("{} bytes of tensors, but the header tells of {}", size, end);
}

std::map<std::string, std::string> read_metadata(const Json& object) {
  if (!object.is_object()) throw Error("expected texts by name");
  std::map<std::string, std::string> metadata;
  for (const auto& [name, value] : object.items()) metadata[name] = text_in(value, "a value");
  return metadata;
}

// The bytes between the size of the header and the tensors.
std::string read_header(const InputFile& file) {
  if (file.size() < size_bytes) throw Error("no safetensors file: {} bytes", file.size());
  std::uint64_t size;
  file.read(0, std::as_writable_bytes(std::span(&size, 1)));
  if (size > file.size() - size_bytes)
    throw Error("no safetensors file, or a truncated one: its header would have {} bytes", size);
  if (size > largest_header)
    throw Error("its header has {} bytes, expected at most {}", size, largest_header);
  std::string header(size, '\0');
  file.read(size_bytes, std::as_writable_bytes(std::span(header)));
  return header;
}

// What is said about the file, without its name.
Safetensors parse(const InputFile& file) {
  const std::string text = read_header(file);
  const Json header = HeaderParser(text).parse();
  if (!header.is_object()) throw Error("its header is no object");
  const std::uint64_t begin = size_bytes + text.size(), size = file.size() - begin;

  Safetensors content;
  std::vector<Entry> entries;
  for (const auto& [name, entry] : header.items()) {
    try {
      if (name == metadata_key)
        content.metadata = read_metadata(entry);
      else
        entries.push_back(read_entry(name, entry, size));
    } catch (const Error& error) {
      throw Error("'{}': {}", printable(name), error.what());
    }
  }
  sort_gapless(entries, size);
  for (const Entry& entry : entries) {
    std::string bytes(entry.end - entry.begin, '\0');
    file.read(begin + entry.begin, std::as_writable_bytes(std::span(bytes)));
    content.tensors.push_back({entry.name, entry.type->read(bytes.data(), entry.shape)});
  }
  return content;
}

std::string dump(const nlohmann::ordered_json& header, const fs::path& path) {
  try {
    return header.dump();
  } catch (const nlohmann::ordered_json::type_error&) {
    throw Error("{}: cannot be written: a name or the configuration is not UTF-8", path.string());
  }
}

// Throws Error where a tensor holds a number that is not.
void require_finite(const std::string& name, const Tensor& tensor) {
  std::vector<std::byte> host(tensor.bytes());
  copy_to_host(tensor, host.data());
  if (const auto at = find_not_finite(host, tensor.dtype())) {
    throw Error("'{}' holds a number that is not finite, or too large for {}, at element {}",
                printable(name), name_of(tensor.dtype()), *at);
  }
}

}  // namespace

void write_safetensors(const fs::path& path, const Safetensors& content) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header[metadata_key] = content.metadata;
  std::uint64_t end = 0;
  for (const auto& [name, value] : content.tensors) {
    const std::uint64_t begin = std::exchange(end, end + bytes_of(value));
    if (header.contains(name)) throw Error("{}: '{}' comes twice", path.string(), printable(name));
    header[name] = {{"dtype", type_name(value.dtype())},
                    {"shape", value.shape()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = dump(header, path);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start at a multiple of 8 bytes

  const std::uint64_t header_size = text.size();
  std::string file(size_bytes + header_size + end, '\0');
  std::memcpy(file.data(), &header_size, size_bytes);
  std::memcpy(file.data() + size_bytes, text.data(), text.size());
  char* to = file.data() + size_bytes + header_size;
  for (const auto& [name, value] : content.tensors) {
    const Tensor dense = value.contiguous();
    copy_to_host(dense, to);
    to += bytes_of(value);
  }
  write_whole_file(path, file);
}

Safetensors read_safetensors(const fs::path& path) {
  const InputFile file(path);
  try {
    return parse(file);
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
}

void fill_from_safetensors(const fs::path& path, const std::vector<NamedTensor>& wanted) {
  std::map<std::string, Tensor> targets;
  for (const auto& [name, value] : wanted) targets[name] = value;
  std::vector<StoredTensor> stored;
  std::map<std::string, Tensor> found;
  for (const auto& [name, value] : read_safetensors(path).tensors) {
    const auto same = targets.find(name);
    const DType type = same == targets.end() ? value.dtype() : same->second.dtype();
    stored.push_back({name, value.shape(), type});
    found[name] = value.to(type);
  }
  const std::vector<std::string> misfits = differences(stored, wanted);
  if (!misfits.empty())
    throw Error("{}: does not fit this configuration: {}", path.string(), fmt::join(misfits, "; "));
  try {
    for (const auto& [name, value] : found) require_finite(name, value);
  } catch (const Error& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
  for (const auto& [name, value] : wanted) {
    Tensor target = value;
    target.copy_from(found.at(name));
  }
}

}  // namespace mobius
