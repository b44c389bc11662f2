// Malicious checkpoints: altered with the HDF5 library, with a valid checksum.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/hdf5.h"

namespace mobius {

/// Recomputes the checksum of a changed file. A file without room for it is unchanged.
inline std::string with_valid_checksum(std::string content) {
  if (content.size() >= checksum_block_bytes) write_checksum(content);
  return content;
}

/// Opens a checkpoint as an HDF5 file, lets `change` write to it, and recomputes its checksum.
inline void alter_checkpoint(const std::filesystem::path& path,
                             const std::function<void(hid_t file)>& change) {
  const hdf5::Quiet quiet;  // not every change fits every checkpoint
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);  // also closes what a failed change left open
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, access);
  change(file);
  H5Fclose(file);
  H5Pclose(access);
  write_text(path, with_valid_checksum(read_text(path)));
}

namespace hostile {

/// Sets an attribute, replacing one of this name. `values` have the type `type`; without `sizes`
/// the attribute is a scalar.
inline void set_attribute(hid_t object, const char* name, hid_t type, const void* values,
                          const std::vector<hsize_t>& sizes = {}) {
  if (H5Aexists(object, name) > 0) H5Adelete(object, name);
  const hid_t space = sizes.empty()
                          ? H5Screate(H5S_SCALAR)
                          : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, values);
  H5Aclose(attribute);
  H5Sclose(space);
}

/// Sets an attribute of the object at the path.
inline void set_attribute_of(hid_t file, const char* path, const char* name, hid_t type,
                             const void* values, const std::vector<hsize_t>& sizes = {}) {
  const hid_t object = H5Oopen(file, path, H5P_DEFAULT);
  set_attribute(object, name, type, values, sizes);
  H5Oclose(object);
}

inline void set_integer(hid_t file, const char* name, std::int64_t value) {
  set_attribute(file, name, H5T_STD_I64LE, &value);
}

inline void set_number(hid_t object, const char* path, const char* name, double value) {
  set_attribute_of(object, path, name, H5T_IEEE_F64LE, &value);
}

inline void set_text(hid_t file, const char* path, const char* name, const std::string& value) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const char* text = value.c_str();
  set_attribute_of(file, path, name, type, &text);
  H5Tclose(type);
}

/// Replaces the data set at the path by one of `type` with the properties `creation`. Its shape is
/// 2 x 3 unless `sizes` is given; it is filled with ones if `writes`.
inline void set_tensor(hid_t file, const char* path, hid_t type, hid_t creation = H5P_DEFAULT,
                       const std::vector<hsize_t>& sizes = {2, 3}, bool writes = true,
                       const char* dtype = "f32") {
  if (H5Lexists(file, path, H5P_DEFAULT) > 0) H5Ldelete(file, path, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  const hid_t set = H5Dcreate2(file, path, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  const std::vector<float> ones(6, 1);
  if (writes) H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data());
  H5Dclose(set);
  H5Sclose(space);
  if (dtype != nullptr) set_text(file, path, "dtype", dtype);
}

/// Returns the properties of a data set that is not contiguous in the file.
inline hid_t layout(const std::function<void(hid_t creation)>& set) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  set(creation);
  return creation;
}

inline void set_tensor(hid_t file, const char* path,
                       const std::function<void(hid_t creation)>& set) {
  const hid_t creation = layout(set);
  set_tensor(file, path, H5T_IEEE_F32LE, creation);
  H5Pclose(creation);
}

inline void remove(hid_t file, const char* path) { H5Ldelete(file, path, H5P_DEFAULT); }

}  // namespace hostile

/// A change to a checkpoint that holds a parameter `z.weight` f32 [2, 3], its moment `m`, a
/// tokeniser and progress, and the expected error; "" if the result is valid.
struct HostileChange {
  std::string name;
  std::string message;
  std::function<void(hid_t file)> apply;
};

inline std::vector<HostileChange> hostile_changes() {
  using namespace hostile;
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  const char* const weight = "parameters/z.weight";
  const std::string step = "attribute 'step' is not one 64-bit integer";
  const std::string layout_words = "'parameters/z.weight' does not lie in this file in one piece";
  return {
      // Attributes of a wrong type, shape or value.
      {"step_of_three", step,
       [](hid_t file) {
         const std::int64_t values[] = {0, 1, 2};
         set_attribute(file, "step", H5T_STD_I64LE, values, {3});
       }},
      {"step_of_one_in_a_list", step,
       [](hid_t file) {
         const std::int64_t value = 1;
         set_attribute(file, "step", H5T_STD_I64LE, &value, {1});
       }},
      {"step_infinite", step,
       [](hid_t file) {
         const double value = infinity;
         set_attribute(file, "step", H5T_IEEE_F64LE, &value);
       }},
      {"step_unsigned", step,
       [](hid_t file) {
         const std::uint64_t value = std::numeric_limits<std::uint64_t>::max();
         set_attribute(file, "step", H5T_STD_U64LE, &value);
       }},
      {"step_of_32_bits", step,
       [](hid_t file) {
         const std::int32_t value = 7;
         set_attribute(file, "step", H5T_STD_I32LE, &value);
       }},
      {"step_text", step, [](hid_t file) { set_text(file, ".", "step", "7"); }},
      {"step_array_type", step,
       [](hid_t file) {
         const std::int64_t values[] = {0, 1, 2, 3, 4, 5, 6, 7};
         const hsize_t size = 8;
         const hid_t type = H5Tarray_create2(H5T_STD_I64LE, 1, &size);
         set_attribute(file, "step", type, values);
         H5Tclose(type);
       }},
      {"step_negative", "attribute 'step' is -1, expected 0 to",
       [](hid_t file) {
         set_integer(file, "step", -1);
         set_integer(file, "next_batch", -1);
       }},
      {"step_last", "attribute 'step' is 9223372036854775807, expected 0 to",
       [](hid_t file) {
         set_integer(file, "step", std::numeric_limits<std::int64_t>::max());
         set_integer(file, "next_batch", std::numeric_limits<std::int64_t>::max());
       }},
      {"step_alone", "attribute 'next_batch' is not that of the step",
       [](hid_t file) { set_integer(file, "step", 1000); }},
      {"no_step", "attribute 'step' is missing", [](hid_t file) { H5Adelete(file, "step"); }},
      {"seeds", "attribute 'seed' is not one 64-bit integer",
       [](hid_t file) {
         const std::vector<std::uint64_t> values(4000, 1);
         set_attribute(file, "seed", H5T_STD_U64LE, values.data(), {4000});
       }},
      {"optimizer_steps", "attribute 'optimizer_steps' is not one 64-bit integer",
       [](hid_t file) {
         const std::vector<std::int64_t> values(400, 1);
         set_attribute(file, "optimizer_steps", H5T_STD_I64LE, values.data(), {20, 20});
       }},
      {"optimizer_ahead", "attribute 'optimizer_steps' is 1000, expected 0 to",
       [](hid_t file) { set_integer(file, "optimizer_steps", 1000); }},
      {"config_number", "attribute 'config' is not a text",
       [](hid_t file) { set_integer(file, "config", 1); }},
      {"config_fixed", "attribute 'config' is not a text",
       [](hid_t file) {
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, 4);
         set_attribute(file, "config", type, "abcd");
         H5Tclose(type);
       }},
      {"config_texts", "attribute 'config' is not a text",
       [](hid_t file) {
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, H5T_VARIABLE);
         const char* texts[] = {"a", "b"};
         set_attribute(file, "config", type, texts, {2});
         H5Tclose(type);
       }},
      {"config_list_of_bytes", "attribute 'config' is not a text",
       [](hid_t file) {
         const hid_t type = H5Tvlen_create(H5T_NATIVE_CHAR);
         char bytes[] = "task";
         const hvl_t list{4, bytes};
         set_attribute(file, "config", type, &list);
         H5Tclose(type);
       }},
      {"config_long", "attribute 'config' is too long",
       [](hid_t file) { set_text(file, ".", "config", std::string((16 << 20) + 1, 'a')); }},
      {"foreign", "not a Mobius checkpoint",
       [](hid_t file) { set_text(file, ".", "format", "another"); }},
      {"progress_list", "attribute 'tokens' of group 'progress' is not one 64-bit number",
       [](hid_t file) {
         const std::vector<double> values(1000, 1);
         set_attribute_of(file, "progress", "tokens", H5T_IEEE_F64LE, values.data(), {1000});
       }},
      {"progress_text", "attribute 'tokens' of group 'progress' is not one 64-bit number",
       [](hid_t file) { set_text(file, "progress", "tokens", "many"); }},
      {"progress_negative", "attribute 'tokens' of group 'progress' is negative",
       [](hid_t file) { set_number(file, "progress", "tokens", -1); }},
      {"progress_many", "group 'progress' has too many attributes",
       [](hid_t file) {
         for (int i = 0; i < 1001; ++i) {
           set_number(file, "progress", ("value" + std::to_string(i)).c_str(), 1);
         }
       }},
      {"progress_missing", "group 'progress' is missing",
       [](hid_t file) { remove(file, "progress"); }},
      {"progress_tensor", "group 'progress' is not a group",
       [](hid_t file) { set_tensor(file, "progress", H5T_IEEE_F32LE); }},

      // Links to other places, and cycles.
      {"parameters_missing", "group 'parameters' is missing",
       [](hid_t file) { remove(file, "parameters"); }},
      {"parameters_soft", "group 'parameters' is a link",
       [](hid_t file) {
         H5Lmove(file, "parameters", file, "elsewhere", H5P_DEFAULT, H5P_DEFAULT);
         H5Lcreate_soft("/elsewhere", file, "parameters", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"buffers_in_another_file", "group 'buffers' is a link",
       [](hid_t file) {
         remove(file, "buffers");
         H5Lcreate_external("/etc/passwd", "/", file, "buffers", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"soft_tensor", "'parameters/x' is a link",
       [](hid_t file) {
         H5Lcreate_soft("/parameters/z.weight", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"soft_circle", "'parameters/x' is a link",
       [](hid_t file) {
         H5Lcreate_soft("/parameters", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"dangling", "'parameters/x' is a link",
       [](hid_t file) {
         H5Lcreate_soft("/nowhere", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"external_tensor", "'parameters/x' is a link",
       [](hid_t file) {
         H5Lcreate_external("other.h5", "/x", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"hard_circle", "'parameters/x' is not a tensor",
       [](hid_t file) {
         H5Lcreate_hard(file, "parameters", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"hard_circle_of_all", "'parameters/x' is not a tensor",
       [](hid_t file) {
         H5Lcreate_hard(file, "/", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"circle_of_moments", "'optimizer/x/m' is not a tensor",
       [](hid_t file) {
         H5Lcreate_hard(file, "optimizer", file, "optimizer/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"deep_moment", "'optimizer/m/x' is not a tensor",
       [](hid_t file) {
         H5Gclose(H5Gcreate2(file, "optimizer/m/x", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
       }},
      {"tensor_as_moment", "group 'optimizer/x' is not a group",
       [](hid_t file) { set_tensor(file, "optimizer/x", H5T_IEEE_F32LE); }},
      {"two_names", "lie in the same place",
       [=](hid_t file) {
         H5Lcreate_hard(file, weight, file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
       }},
      {"type_as_tensor", "'parameters/x' is not a tensor",
       [](hid_t file) {
         const hid_t type = H5Tcopy(H5T_NATIVE_INT);
         H5Tcommit2(file, "parameters/x", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
         H5Tclose(type);
       }},
      {"parameters_are_a_tensor", "group 'parameters' is not a group",
       [](hid_t file) {
         remove(file, "parameters");
         set_tensor(file, "parameters", H5T_IEEE_F32LE);
       }},
      {"group_without_order", "group 'parameters' cannot be read",
       [](hid_t file) {
         remove(file, "parameters");
         H5Gclose(H5Gcreate2(file, "parameters", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
       }},
      {"long_name", "group 'parameters' has a name that no tensor has",
       [](hid_t file) {
         set_tensor(file, ("parameters/" + std::string(10'000, 'x')).c_str(), H5T_IEEE_F32LE);
       }},

      // Data sets that are not stored as Mobius stores them.
      {"other_file", layout_words,
       [=](hid_t file) {
         set_tensor(file, weight,
                    [](hid_t creation) { H5Pset_external(creation, "/etc/passwd", 0, 24); });
       }},
      {"chunks", layout_words,
       [=](hid_t file) {
         const hsize_t chunk[] = {1, 3};
         set_tensor(file, weight, [&](hid_t creation) { H5Pset_chunk(creation, 2, chunk); });
       }},
      {"filter", layout_words,
       [=](hid_t file) {
         const hsize_t chunk[] = {2, 3};
         set_tensor(file, weight, [&](hid_t creation) {
           H5Pset_chunk(creation, 2, chunk);
           H5Pset_shuffle(creation);
           H5Pset_fletcher32(creation);
         });
       }},
      {"in_its_header", layout_words,
       [=](hid_t file) {
         set_tensor(file, weight, [](hid_t creation) { H5Pset_layout(creation, H5D_COMPACT); });
       }},
      {"virtual", layout_words,
       [=](hid_t file) {
         const hsize_t sizes[] = {2, 3};
         const hid_t space = H5Screate_simple(2, sizes, nullptr);
         set_tensor(file, weight, [&](hid_t creation) {
           H5Pset_virtual(creation, space, "/etc/passwd", "x", space);
         });
         H5Sclose(space);
       }},
      {"doubles", "'parameters/z.weight' has elements of another type",
       [=](hid_t file) { set_tensor(file, weight, H5T_IEEE_F64LE); }},
      {"big_endian", "'parameters/z.weight' has elements of another type",
       [=](hid_t file) { set_tensor(file, weight, H5T_IEEE_F32BE); }},
      {"records", "'parameters/z.weight' has elements of another type",
       [=](hid_t file) {
         const hid_t type = H5Tcreate(H5T_COMPOUND, 4);
         H5Tinsert(type, "x", 0, H5T_IEEE_F32LE);
         set_tensor(file, weight, type, H5P_DEFAULT, {2, 3}, false);
         H5Tclose(type);
       }},
      {"references", "'parameters/z.weight' has elements of another type",
       [=](hid_t file) {
         set_tensor(file, weight, H5T_STD_REF_OBJ, H5P_DEFAULT, {2, 3}, false);
       }},
      {"no_dtype", "attribute 'dtype' of 'parameters/z.weight' is missing",
       [=](hid_t file) {
         set_tensor(file, weight, H5T_IEEE_F32LE, H5P_DEFAULT, {2, 3}, true, nullptr);
       }},
      {"unknown_dtype", "'parameters/z.weight' has elements of a type that there is not",
       [=](hid_t file) { set_text(file, weight, "dtype", "f32\nf64 \x1b[2J"); }},
      {"dtype_number", "attribute 'dtype' of 'parameters/z.weight' is not a text",
       [=](hid_t file) { set_number(file, weight, "dtype", 1); }},
      {"no_values", "'parameters/z.weight' has no values",
       [=](hid_t file) {
         set_tensor(file, weight, H5T_IEEE_F32LE, H5P_DEFAULT, {2, 3}, false);
       }},
      {"no_values_of_much", "'parameters/z.weight' has no values",
       [=](hid_t file) {
         set_tensor(file, weight, H5T_IEEE_F32LE, H5P_DEFAULT, {1 << 20, 1 << 20}, false);
       }},
      {"no_shape", "'parameters/z.weight' has no shape",
       [=](hid_t file) {
         remove(file, weight);
         const hid_t space = H5Screate(H5S_NULL);
         H5Dclose(H5Dcreate2(file, weight, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                             H5P_DEFAULT));
         H5Sclose(space);
         set_text(file, weight, "dtype", "f32");
       }},
      {"tokenizer_of_numbers", "'tokenizer' is not a list of bytes",
       [](hid_t file) {
         set_tensor(file, "tokenizer", H5T_IEEE_F32LE);
         set_text(file, "tokenizer", "kind", "char");
       }},
      {"tokenizer_without_kind", "attribute 'kind' of 'tokenizer' is missing",
       [](hid_t file) {
         set_tensor(file, "tokenizer", H5T_STD_U8LE, H5P_DEFAULT, {6}, true, "u8");
       }},
      {"tokenizer_soft", "'tokenizer' is a link",
       [](hid_t file) {
         remove(file, "tokenizer");
         H5Lcreate_soft("/parameters/z.weight", file, "tokenizer", H5P_DEFAULT, H5P_DEFAULT);
       }},

      // Foreign objects are ignored.
      {"more_attributes", "", [](hid_t file) { set_text(file, ".", "instruction_set", "none"); }},
      {"more_groups", "",
       [](hid_t file) {
         H5Gclose(H5Gcreate2(file, "notes", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         H5Lcreate_external("/etc/passwd", "/", file, "other", H5P_DEFAULT, H5P_DEFAULT);
         H5Lcreate_hard(file, "/", file, "circle", H5P_DEFAULT, H5P_DEFAULT);
       }},
  };
}

}  // namespace mobius
