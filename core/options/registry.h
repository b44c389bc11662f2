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

/// One kind of a registry, chosen: its name, and its options. Empty until something is chosen.
template <typename Options>
struct Chosen {
  std::string name;
  std::unique_ptr<Options> options;

  explicit operator bool() const { return options != nullptr; }
  Options& operator*() const { return *options; }
  Options* operator->() const { return options.get(); }
};

/// An ordered list of kinds: name, one line of help, and how to make the kind's default options.
/// `Options` is an abstract struct with `virtual void describe(Schema&)`.
///
/// Registries are plain objects, filled by functions such as builtin_attentions() and handed down:
/// nothing registers itself. A registry must outlive every Schema that refers to it.
template <typename Options>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Options>()>;

  struct Kind {
    std::string name;
    std::string help;
    Factory make;
  };

  /// Adds a kind; a name given twice is an Error. Returns the registry, to chain.
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

  /// Default options of the named kind. An unknown name is a ConfigError that says the nearest
  /// known name, or all of them.
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
