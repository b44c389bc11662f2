// A SentencePiece model with other settings than those of Mobius, for tests.
#pragma once

#include <sentencepiece_trainer.h>

#include <filesystem>
#include <string>
#include <unordered_map>

#include "core/error.h"
#include "tests/temporary_folder.h"

namespace mobius {

/// Writes NAME.model to the folder and returns its path. The library learns the pieces from the
/// text with its default settings, except for `changed`: the model has no tokens for bytes and
/// knows only the characters of the text, without line ends; it normalises, removes spaces and adds
/// one before a text.
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
