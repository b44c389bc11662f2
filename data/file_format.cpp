#include "data/file_format.h"

#include <array>
#include <utility>

namespace mobius {

std::string_view format_of(std::string_view first_bytes) {
  using std::string_view_literals::operator""sv;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> known = {{
      {"\x1F\x8B\x08"sv, "a gzip file"},
      {"\x28\xB5\x2F\xFD"sv, "a Zstandard file"},
      {"\xFD\x37\x7A\x58\x5A\x00"sv, "an xz file"},
      {"BZh91AY"sv, "a bzip2 file"},
      {"PK\x03\x04"sv, "a zip file"},
      {"\x93NUMPY"sv, "a NumPy file"},
      {"PAR1"sv, "a Parquet file"},
      {"ARROW1"sv, "an Arrow file"},
      {"\x89HDF\r\n"sv, "an HDF5 file"},
      {"\xFF\xFE"sv, "text in UTF-16"},
      {"\xFE\xFF"sv, "text in UTF-16"},
  }};
  for (const auto& [beginning, name] : known) {
    if (first_bytes.starts_with(beginning)) return name;
  }
  return "";
}

}  // namespace mobius
