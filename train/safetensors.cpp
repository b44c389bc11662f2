#include "train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/backend.h"
#include "core/error.h"
#include "train/checkpoint.h"
#include "train/file.h"

namespace mobius {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr const char* metadata_key = "__metadata__";
constexpr std::size_t size_bytes = 8;

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
  backend_for(tensor.device()).copy_from_host(bytes, tensor);
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
  throw Error("expected F32, F64, BF16 or F16, got {}", name);
}

// [begin, end) of the bytes behind the header.
struct Extent {
  std::uint64_t begin, end;
  std::string name;
};

// Throws unless the tensors fill the bytes behind the header, without gaps and without overlap.
void require_gapless(std::vector<Extent> extents, std::uint64_t size) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t end = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != end)
      throw Error("'{}' starts at byte {}, expected {}", extent.name, extent.begin, end);
    end = extent.end;
  }
  if (end != size) throw Error("{} bytes of tensors, but the header tells of {}", size, end);
}

Shape shape_of(const Json& entry) {
  Shape shape;
  for (const Json& size : entry.at("shape")) {
    shape.push_back(size.get<std::int64_t>());
    if (shape.back() < 0) throw Error("expected sizes of at least 0, got {}", shape.back());
  }
  return shape;
}

NamedTensor read_entry(const std::string& name, const Json& entry, std::string_view data,
                       std::vector<Extent>& extents) {
  const StoredType& type = stored_type(entry.at("dtype").get<std::string>());
  const Shape shape = shape_of(entry);
  const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>(),
             end = entry.at("data_offsets").at(1).get<std::uint64_t>();
  if (begin > end || end > data.size() || (end - begin) % type.size != 0 ||
      (end - begin) / type.size != static_cast<std::uint64_t>(numel(shape)))
    throw Error("bytes {} to {} of {} for {} {}", begin, end, data.size(), type.name,
                to_string(shape));
  extents.push_back({begin, end, name});
  return {name, type.read(data.data() + begin, shape)};
}

Safetensors parse(std::string_view file) {
  if (file.size() < size_bytes) throw Error("no safetensors file: {} bytes", file.size());
  std::uint64_t header_size;
  std::memcpy(&header_size, file.data(), size_bytes);
  if (header_size > file.size() - size_bytes)
    throw Error("no safetensors file, or a truncated one: its header would have {} bytes",
                header_size);
  const std::string_view text = file.substr(size_bytes, header_size),
                         data = file.substr(size_bytes + header_size);
  const Json header = Json::parse(text);
  if (!header.is_object()) throw Error("its header is no object");

  Safetensors content;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header.items()) {
    if (name == metadata_key) {
      content.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    try {
      content.tensors.push_back(read_entry(name, entry, data, extents));
    } catch (const std::exception& error) {
      throw Error("'{}': {}", name, error.what());
    }
  }
  require_gapless(std::move(extents), data.size());
  return content;
}

}  // namespace

void write_safetensors(const fs::path& path, const Safetensors& content) {
  Json header = Json::object();
  if (!content.metadata.empty()) header[metadata_key] = content.metadata;
  std::uint64_t end = 0;
  for (const auto& [name, value] : content.tensors) {
    const std::uint64_t begin = std::exchange(end, end + bytes_of(value));
    header[name] = {{"dtype", type_name(value.dtype())},
                    {"shape", value.shape()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start at a multiple of 8 bytes

  const std::uint64_t header_size = text.size();
  std::string file(size_bytes + header_size + end, '\0');
  std::memcpy(file.data(), &header_size, size_bytes);
  std::memcpy(file.data() + size_bytes, text.data(), text.size());
  char* to = file.data() + size_bytes + header_size;
  for (const auto& [name, value] : content.tensors) {
    const Tensor dense = value.contiguous();
    backend_for(dense.device()).copy_to_host(dense, to);
    to += bytes_of(value);
  }
  write_whole_file(path, file);
}

Safetensors read_safetensors(const fs::path& path) {
  const std::string file = read_whole_file(path);
  try {
    return parse(file);
  } catch (const std::exception& error) {
    throw Error("{}: {}", path.string(), error.what());
  }
}

void fill_from_safetensors(const fs::path& path, const std::vector<NamedTensor>& wanted) {
  const std::vector<NamedTensor> found = read_safetensors(path).tensors;
  std::vector<StoredTensor> stored;
  std::map<std::string, Tensor> by_name;
  for (const auto& [name, value] : found) {
    const auto same = std::find_if(wanted.begin(), wanted.end(),
                                   [&](const NamedTensor& tensor) { return tensor.name == name; });
    const DType type = same == wanted.end() ? value.dtype() : same->value.dtype();
    stored.push_back({name, value.shape(), type});
    by_name[name] = value;
  }
  const std::vector<std::string> misfits = differences(stored, wanted);
  if (!misfits.empty())
    throw Error("{}: does not fit this configuration: {}", path.string(), fmt::join(misfits, "; "));
  for (const auto& [name, value] : wanted) {
    Tensor target = value;
    target.copy_from(by_name.at(name));
  }
}

}  // namespace mobius
