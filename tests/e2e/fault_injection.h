// Lets calls of the binary on its files fail, or be its last ones: see tests/faults/preload.cpp.
#pragma once

#include <cerrno>
#include <climits>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/process.h"

namespace mobius {

/// A call on a file, as the preloaded library notes it.
struct NotedCall {
  int number = 0;    ///< among those of the kinds of the fault, from 1; else 0
  std::string kind;  ///< write, rename, ...
  std::string fate;  ///< done, halved, killed or failed
  std::filesystem::path path;
};

/// What becomes of a call of one of these kinds.
struct Fault {
  std::string kinds;        ///< "write,rename"
  std::string how;          ///< kill, kill_halfway, half, or the number of an error
  bool is_lasting = false;  ///< later calls fail, too
};

constexpr int no_call = 0;

/// Notes the calls on files below `folder` in `log`. Of those of the fault's kinds, call number
/// `call` meets it.
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
