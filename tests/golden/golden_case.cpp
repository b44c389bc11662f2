#include "tests/golden/golden_case.h"

#include <hdf5.h>

#include <utility>

#include "core/error.h"
#include "tests/device.h"

namespace mobius::golden {

namespace {

// An open HDF5 object.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw Error("golden: cannot open {}", what);
  }
  ~Handle() { close_(id_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

void require(herr_t status, const std::string& what) {
  if (status < 0) throw Error("golden: cannot read {}", what);
}

std::vector<std::string> link_names(hid_t group) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->emplace_back(name);
    return 0;
  };
  require(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "names of a group");
  return names;
}

std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->emplace_back(name);
    return 0;
  };
  require(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names), "attributes");
  return names;
}

std::string read_text(hid_t attribute, hid_t type, const std::string& name) {
  if (H5Tis_variable_str(type) > 0) {
    const Handle space(H5Aget_space(attribute), H5Sclose, name);
    char* text = nullptr;
    require(H5Aread(attribute, type, &text), name);
    const std::string copy = text;
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, &text);
    return copy;
  }
  std::string text(H5Tget_size(type), '\0');
  require(H5Aread(attribute, type, text.data()), name);
  return text.c_str();  // up to the padding
}

std::variant<double, std::string> read_attribute(hid_t object, const std::string& name) {
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, name);
  const Handle type(H5Aget_type(attribute), H5Tclose, name);
  if (H5Tget_class(type) == H5T_STRING) return read_text(attribute, type, name);
  double number = 0;
  require(H5Aread(attribute, H5T_NATIVE_DOUBLE, &number), name);
  return number;
}

template <class T>
Tensor read_values(hid_t dataset, hid_t memory_type, const Shape& shape, const std::string& name) {
  std::vector<T> values(static_cast<std::size_t>(numel(shape)));
  require(H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), name);
  return placed::from(values, shape);
}

Tensor read_tensor(hid_t group, const std::string& name) {
  const Handle dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, name);
  const Handle space(H5Dget_space(dataset), H5Sclose, name);
  const Handle type(H5Dget_type(dataset), H5Tclose, name);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
  if (!sizes.empty()) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  const Shape shape(sizes.begin(), sizes.end());
  if (H5Tget_class(type) == H5T_FLOAT)
    return read_values<double>(dataset, H5T_NATIVE_DOUBLE, shape, name);
  if (H5Tget_size(type) == 1)
    return read_values<std::uint8_t>(dataset, H5T_NATIVE_UINT8, shape, name);
  return read_values<std::int64_t>(dataset, H5T_NATIVE_INT64, shape, name);
}

std::map<std::string, Tensor> read_tensors(hid_t parent, const std::string& name) {
  if (H5Lexists(parent, name.c_str(), H5P_DEFAULT) <= 0) return {};
  const Handle group(H5Gopen2(parent, name.c_str(), H5P_DEFAULT), H5Gclose, name);
  std::map<std::string, Tensor> tensors;
  for (const std::string& key : link_names(group)) tensors.emplace(key, read_tensor(group, key));
  return tensors;
}

}  // namespace

std::vector<std::string> case_names(const std::filesystem::path& path) {
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path);
  return link_names(file);
}

GoldenCase read_case(const std::filesystem::path& path, const std::string& name) {
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path);
  const Handle group(H5Gopen2(file, name.c_str(), H5P_DEFAULT), H5Gclose, name);
  GoldenCase golden{.attributes = {},
                    .inputs = read_tensors(group, "in"),
                    .outputs = read_tensors(group, "out"),
                    .cotangents = read_tensors(group, "cot"),
                    .gradients = read_tensors(group, "grad")};
  for (const std::string& key : attribute_names(group))
    golden.attributes.emplace(key, read_attribute(group, key));
  return golden;
}

}  // namespace mobius::golden
