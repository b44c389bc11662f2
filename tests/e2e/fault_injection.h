// Injects faults into the file operations of the binary, or kills it there; see
// tests/faults/preload.cpp.
#pragma once

#include <cerrno>
#include <climits>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace mobius {

/// A file operation that the preloaded library has logged.
struct NotedCall {
  int number = 0;    ///< among the kinds of the fault, from 1; 0 for other kinds
  std::string kind;  ///< write, rename, ...
  std::string fate;  ///< done, halved, killed or failed
  std::filesystem::path path;
};

/// A fault that calls of these kinds meet.
struct Fault {
  std::string kinds;        ///< "write,rename"
  std::string how;          ///< kill, kill_halfway, half, or an errno
  bool is_lasting = false;  ///< later calls fail, too
};

constexpr int no_call = 0;

/// Logs the operations on files below `folder` to `log`. Operation number `call` of the fault's
/// kinds meets the fault.
inline Surroundings with_fault(const std::filesystem::path& folder,
                               const std::filesystem::path& log, const Fault& fault,
                               int call = no_call) {
  const int last = fault.is_lasting && call != no_call ? INT_MAX : call;
  return {.environment = {{"LD_PRELOAD", MOBIUS_FAULTS_LIBRARY},
                          {"FAULTS_BELOW", folder.string()},
                          {"FAULTS_LOG", log.string()},
                          {"FAULTS_KINDS", fault.kinds},
                          {"FAULTS_HOW", fault.how},
                          {"FAULTS_FIRST", std::to_string(call)},
                          {"FAULTS_LAST", std::to_string(last)}}};
}

inline std::vector<NotedCall> calls_in(const std::filesystem::path& log) {
  std::vector<NotedCall> calls;
  for (const std::string& line : lines_of(read_text(log))) {
    std::istringstream words(line);
    NotedCall call;
    std::string path;
    words >> call.number >> call.kind >> call.fate >> std::ws;
    std::getline(words, path);
    call.path = path;
    calls.push_back(call);
  }
  return calls;
}

}  // namespace mobius
