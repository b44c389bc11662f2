// The parts of the HDF5 library that the writer and the reader of checkpoints share.
#pragma once

#include <hdf5.h>

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/dtype.h"
#include "core/error.h"

namespace mobius::hdf5 {

// Keeps the library from printing its error stack while one lives.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

// Returns the result of a call, or throws the Error "cannot <action>". The library's own words name
// its functions, so they are left out.
template <typename Result>
Result check(Result result, std::string_view action) {
  if (result < 0) throw Error("cannot {}", action);
  return result;
}

// Owns an identifier of any kind.
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

// ---- the types of the format

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

template <typename T>
hid_t number_type() {
  if constexpr (std::is_same_v<T, double>)
    return H5T_IEEE_F64LE;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return H5T_STD_U64LE;
  else
    return H5T_STD_I64LE;
}

inline Handle text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "set up HDF5");
  check(H5Tset_size(type, H5T_VARIABLE), "set up HDF5");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "set up HDF5");
  return type;
}

inline hid_t stored_type(DType dtype) {
  const std::map<DType, hid_t> types = {{DType::f32, H5T_IEEE_F32LE}, {DType::f64, H5T_IEEE_F64LE},
                                        {DType::bf16, H5T_STD_U16LE}, {DType::i32, H5T_STD_I32LE},
                                        {DType::i64, H5T_STD_I64LE},  {DType::u8, H5T_STD_U8LE}};
  return types.at(dtype);
}

}  // namespace mobius::hdf5
