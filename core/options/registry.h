// Registry: the kinds a configuration may choose from by name (attention.kind, task.name, ...).
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/options/nearest.h"

namespace mobius {

/// A chosen kind of a registry: its name and its options. Empty until one is chosen.
template <typename Options>
struct Chosen {
  std::string name;
  std::unique_ptr<Options> options;

  explicit operator bool() const { return options != nullptr; }
  Options& operator*() const { return *options; }
  Options* operator->() const { return options.get(); }
};

/// An ordered list of kinds, each with a name, one line of help, and a factory of default options.
/// `Options` is an abstract struct with `virtual void describe(Schema&)`.
///
/// Registries are plain objects, filled by functions such as builtin_attentions(). A registry must
/// outlive every Schema that refers to it.
template <typename Options>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Options>()>;

  struct Kind {
    std::string name;
    std::string help;
    Factory make;
  };

  /// Adds a kind. Throws Error if the name is taken.
  Registry& add(std::string name, std::string help, Factory make) {
    if (find(name) != nullptr) throw Error("registry: '{}' is added twice", name);
    kinds_.push_back({std::move(name), std::move(help), std::move(make)});
    return *this;
  }

  /// Adds a kind whose default options are a default-constructed `Derived`.
  template <typename Derived>
  Registry& add(std::string name, std::string help) {
    return add(std::move(name), std::move(help), [] { return std::make_unique<Derived>(); });
  }

  /// Makes default options of the named kind. Throws ConfigError with the nearest name, or all
  /// names, if the name is unknown.
  Chosen<Options> choose(std::string_view name) const {
    const Kind* kind = find(name);
    if (kind == nullptr)
      throw ConfigError("unknown name '{}'; {}", name, suggest_name(name, names()));
    return {kind->name, kind->make()};
  }

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const std::vector<Kind>& kinds() const { return kinds_; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Kind& kind : kinds_) names.push_back(kind.name);
    return names;
  }

 private:
  const Kind* find(std::string_view name) const {
    const auto found = std::find_if(kinds_.begin(), kinds_.end(),
                                    [&](const Kind& kind) { return kind.name == name; });
    return found == kinds_.end() ? nullptr : &*found;
  }

  std::vector<Kind> kinds_;
};

}  // namespace mobius
