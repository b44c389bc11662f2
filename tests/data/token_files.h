// Token files for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace mobius {

template <typename Stored>
std::string bytes_of(const std::vector<Stored>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Stored)};
}

/// Returns the 1024-byte header of an llm.c file.
inline std::string llm_c_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header);
}

/// Writes tokens like nanoGPT.
inline void write_raw(const std::filesystem::path& path, const std::vector<std::uint16_t>& tokens) {
  write_text(path, bytes_of(tokens));
}

/// Write tokens like llm.c, for GPT-2 and for Llama 3.
inline void write_llm_c(const std::filesystem::path& path,
                        const std::vector<std::uint16_t>& tokens) {
  write_text(path, llm_c_header(20240520, 1, static_cast<std::uint32_t>(tokens.size())) +
                       bytes_of(tokens));
}
inline void write_llm_c(const std::filesystem::path& path,
                        const std::vector<std::uint32_t>& tokens) {
  write_text(path, llm_c_header(20240801, 7, static_cast<std::uint32_t>(tokens.size())) +
                       bytes_of(tokens));
}

}  // namespace mobius
