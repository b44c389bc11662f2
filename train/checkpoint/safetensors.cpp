#include "train/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
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

// The element types of the format that tensors have here.
constexpr std::pair<std::string_view, DType> real_types[] = {
    {"F32", DType::f32}, {"F64", DType::f64}, {"BF16", DType::bf16}};

std::string_view type_name(DType dtype) {
  for (const auto& [name, type] : real_types)
    if (type == dtype) return name;
  throw Error("safetensors: expected real tensors, got {}", name_of(dtype));
}

// A half-precision number has a sign, 5 bits of exponent and 10 of fraction.
float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const int implied = exponent == 0 ? 0 : 0x400;  // subnormal numbers lack the leading one
  float value = std::ldexp(static_cast<float>(fraction + implied), std::max(exponent, 1) - 25);
  if (exponent == 0x1F) value = fraction == 0 ? HUGE_VALF : std::nanf("");
  return bits & 0x8000 ? -value : value;
}

// An element type as the header names it. F16 is read as f32.
struct StoredType {
  explicit StoredType(const std::string& text) : name(text), is_half(text == "F16") {
    for (const auto& [known, type] : real_types)
      if (known == text) dtype = type;
    if (!is_half && !dtype) throw Error("expected F32, F64, BF16 or F16, got {}", printable(text));
    size = is_half ? 2 : size_of(*dtype);
  }

  Tensor read(const std::string& bytes, const Shape& shape) const {
    Tensor tensor = Tensor::empty(shape, dtype.value_or(DType::f32));
    if (!is_half) {
      copy_from_host(bytes.data(), tensor);
      return tensor;
    }
    std::vector<std::uint16_t> halves(bytes.size() / 2);
    std::memcpy(halves.data(), bytes.data(), bytes.size());
    std::transform(halves.begin(), halves.end(), tensor.data<float>(), from_half);
    return tensor;
  }

  std::string name;
  bool is_half;
  std::optional<DType> dtype{};
  std::uint64_t size = 0;
};

// Parses JSON in which no object has a key twice and nothing lies deeper than in a header.
Json parse_header(std::string_view text) {
  using Event = Json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are not finished
  const auto check = [&keys](int depth, Event event, const Json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= deepest) throw Error("its header is nested too deeply");
      keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Error("'{}' comes twice in its header", printable(parsed.get<std::string>()));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    throw Error("its header is not valid JSON, from byte {} of {} on", error.byte, text.size());
  } catch (const Json::out_of_range&) {
    throw Error("its header has a number that is too large");
  }
}

const Json& value_of(const Json& entry, const char* key) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (found == entry.end()) throw Error("it has no {}", key);
  return *found;
}

std::string text_in(const Json& value, const char* what) {
  if (!value.is_string()) throw Error("expected a text as {}", what);
  return value.get<std::string>();
}

// Reads an array of at most `most` whole numbers from 0 to 2^63 - 1.
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

// A tensor in the header: bytes [begin, end) of those behind the header.
struct Entry {
  std::string name;
  StoredType type;
  Shape shape;
  std::uint64_t begin, end;
};

// `size` counts the bytes behind the header.
Entry read_entry(const std::string& name, const Json& entry, std::uint64_t size) {
  const StoredType type(text_in(value_of(entry, "dtype"), "dtype"));
  const Shape shape = sizes_in(value_of(entry, "shape"), "shape", most_dimensions);
  const std::vector<std::int64_t> offsets =
      sizes_in(value_of(entry, "data_offsets"), "data_offsets", 2);
  if (offsets.size() != 2) throw Error("expected 2 numbers as data_offsets");
  const auto begin = static_cast<std::uint64_t>(offsets[0]),
             end = static_cast<std::uint64_t>(offsets[1]);
  if (begin > end || end > size || (end - begin) % type.size != 0 ||
      (end - begin) / type.size != static_cast<std::uint64_t>(numel(shape)))
    throw Error("bytes {} to {} of {} for {} {}", begin, end, size, type.name, to_string(shape));
  return {name, type, shape, begin, end};
}

// Sorts entries by their bytes. Throws Error unless they fill all behind the header, without gaps
// or overlap.
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

// Errors lack the name of the file.
Safetensors parse(const InputFile& file) {
  const std::string text = read_header(file);
  const Json header = parse_header(text);
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
    content.tensors.push_back({entry.name, entry.type.read(bytes, entry.shape)});
  }
  return content;
}

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
    const std::uint64_t begin = std::exchange(end, end + static_cast<std::uint64_t>(value.bytes()));
    if (header.contains(name)) throw Error("{}: '{}' comes twice", path.string(), printable(name));
    header[name] = {{"dtype", type_name(value.dtype())},
                    {"shape", value.shape()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::ordered_json::type_error&) {
    throw Error("{}: cannot be written: a name or the configuration is not UTF-8", path.string());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start at a multiple of 8 bytes

  const std::uint64_t header_size = text.size();
  std::string file(size_bytes + header_size + end, '\0');
  std::memcpy(file.data(), &header_size, size_bytes);
  std::memcpy(file.data() + size_bytes, text.data(), text.size());
  char* to = file.data() + size_bytes + header_size;
  for (const auto& [name, value] : content.tensors) {
    copy_to_host(value.contiguous(), to);
    to += value.bytes();
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
  std::map<std::string, Tensor> found;
  for (const auto& [name, value] : read_safetensors(path).tensors) found[name] = value;
  for (const auto& [name, value] : wanted) {
    if (found.contains(name)) found[name] = found[name].to(value.dtype());
  }
  std::vector<StoredTensor> stored;
  for (const auto& [name, value] : found) stored.push_back({name, value.shape(), value.dtype()});
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
