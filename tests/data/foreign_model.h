// A SentencePiece model that others made, for tests.
#pragma once

#include <sentencepiece_trainer.h>

#include <filesystem>
#include <string>
#include <unordered_map>

#include "core/error.h"
#include "tests/temporary_folder.h"

namespace mobius {

/// Writes NAME.model into the folder, of pieces that the library learns from the text with its own
/// settings, but for `changed`: without tokens for bytes it knows the characters of the text alone,
/// and no line ends; it normalises, removes spaces and puts one before a text. Its path.
inline std::string write_foreign_model(const std::filesystem::path& folder, const std::string& name,
                                       const std::string& text,
                                       std::unordered_map<std::string, std::string> changed = {}) {
  write_text(folder / (name + ".txt"), text);
  const std::string prefix = (folder / name).string();
  changed.merge(std::unordered_map<std::string, std::string>{{"input", prefix + ".txt"},
                                                             {"model_prefix", prefix},
                                                             {"vocab_size", "400"},
                                                             {"hard_vocab_limit", "false"},
                                                             {"num_threads", "1"},
                                                             {"minloglevel", "3"}});
  const auto status = sentencepiece::SentencePieceTrainer::Train(changed);
  if (!status.ok()) throw Error("foreign model: {}", status.ToString());
  return prefix + ".model";
}

}  // namespace mobius
