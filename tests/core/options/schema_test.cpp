#include "core/options/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/options/nearest.h"
#include "core/options/registry.h"
#include "core/options/validate.h"
#include "tests/error_of.h"

namespace mobius::schema_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The message of the ConfigError that `call` throws.
const OptionField& field_of(const Schema& schema, const char* key) {
  return std::get<OptionField>(*schema.find(key));
}

TEST(Error, FormatsArgumentsAndKeepsAMessageGivenAloneAsItIs) {
  EXPECT_STREQ(Error("{} of {}", 1, std::string("two")).what(), "1 of two");
  EXPECT_STREQ(ConfigError("a {literal}").what(), "a {literal}");
  EXPECT_THROW(throw ShapeError("{}", 1), Error);
}

TEST(Nearest, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("abc", "abxc"), 1u);
  EXPECT_EQ(edit_distance("abc", "ac"), 1u);
  EXPECT_EQ(edit_distance("abc", "axc"), 1u);
  EXPECT_EQ(edit_distance("abc", "bac"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, OffersOnlyLikelySlips) {
  const std::vector<std::string> known{"softmax", "conformal", "lr"};
  EXPECT_EQ(nearest_name("sofmtax", known), "softmax");
  EXPECT_EQ(nearest_name("l", known), "lr");
  EXPECT_EQ(nearest_name("lrr", known), "lr");
  EXPECT_EQ(nearest_name("soft", known), "softmax");
  EXPECT_EQ(nearest_name("conformal_attention", known), "conformal");
  EXPECT_EQ(nearest_name("zebra", known), "");
  EXPECT_EQ(nearest_name("so", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(suggest_name("zebra", known), "known: softmax, conformal, lr");
  EXPECT_EQ(suggest_name("conformall", known), "did you mean 'conformal'?");
}

enum class Decay { none, cosine };

struct AllTypes {
  bool flag = true;
  int small = 3;
  std::int64_t large = 4;
  std::uint64_t natural = 5;
  double number = 0.5;
  std::string text = "t";
  Decay decay = Decay::cosine;
  std::vector<int> integers = {1, 2};
  std::vector<double> numbers = {0.25};
  std::vector<std::string> texts = {"a"};
  std::optional<double> maybe_number;
  std::optional<std::vector<int>> maybe_integers;

  void describe(Schema& schema) {
    schema.field("flag", flag, "a flag");
    schema.field("small", small, "32 bits");
    schema.field("large", large, "64 bits");
    schema.field("natural", natural, "64 bits, unsigned");
    schema.field("number", number, "a number").at_least(0).below(1);
    schema.field("text", text, "a text");
    schema.choice("decay", decay, {{"none", Decay::none}, {"cosine", Decay::cosine}}, "a choice");
    schema.field("integers", integers, "a list").positive();
    schema.field("numbers", numbers, "a list").above(-1).at_most(1);
    schema.field("texts", texts, "a list").one_of({"a", "bee"});
    schema.field("maybe_number", maybe_number, "a number").positive();
    schema.field("maybe_integers", maybe_integers, "a list");
  }
};

TEST(Schema, NamesTypesAndRanges) {
  AllTypes options;
  const auto schema = describe(options);
  EXPECT_EQ(field_of(*schema, "flag").type_name(), "boolean");
  EXPECT_EQ(field_of(*schema, "small").type_name(), "integer");
  EXPECT_EQ(field_of(*schema, "number").type_name(), "number");
  EXPECT_EQ(field_of(*schema, "decay").type_name(), "text");
  EXPECT_EQ(field_of(*schema, "integers").type_name(), "list of integers");
  EXPECT_EQ(field_of(*schema, "maybe_number").type_name(), "number or null");
  EXPECT_EQ(field_of(*schema, "maybe_integers").type_name(), "list of integers or null");
  EXPECT_EQ(field_of(*schema, "large").range(), "");
  EXPECT_EQ(field_of(*schema, "number").range(), "in [0, 1)");
  EXPECT_EQ(field_of(*schema, "numbers").range(), "in (-1, 1]");
  EXPECT_EQ(field_of(*schema, "maybe_number").range(), "> 0");
  EXPECT_EQ(field_of(*schema, "text").range(), "");
  EXPECT_EQ(field_of(*schema, "decay").range(), "none | cosine");
}

TEST(Schema, ReadsAndWritesEveryType) {
  AllTypes options;
  const auto schema = describe(options);
  const auto set = [&](const char* key, OptionValue value) {
    field_of(*schema, key).assign(value);
    EXPECT_EQ(field_of(*schema, key).value(), value) << key;
  };
  set("flag", false);
  set("small", std::int64_t{-7});
  set("large", std::numeric_limits<std::int64_t>::min());
  set("natural", std::numeric_limits<std::int64_t>::max());
  set("number", 0.0);
  set("text", std::string("x"));
  set("decay", std::string("none"));
  set("integers", std::vector<std::int64_t>{3, 4, 5});
  set("numbers", std::vector<double>{});
  set("texts", std::vector<std::string>{"bee", "a"});
  set("maybe_number", 2.0);
  set("maybe_integers", std::vector<std::int64_t>{});
  EXPECT_FALSE(options.flag);
  EXPECT_EQ(options.small, -7);
  EXPECT_EQ(options.natural, 0x7fffffffffffffffu);
  EXPECT_EQ(options.decay, Decay::none);
  EXPECT_THAT(options.integers, ElementsAre(3, 4, 5));
  EXPECT_THAT(options.texts, ElementsAre("bee", "a"));
  set("maybe_number", OptionValue{});
  EXPECT_FALSE(options.maybe_number.has_value());
}

struct Conditional {
  bool is_on = false;
  double strength = 1;

  void describe(Schema& schema) {
    schema.field("is_on", is_on, "");
    schema.field("strength", strength, "")
        .positive()
        .only_if([this] { return is_on; }, "is_on: true");
  }
};

// The default may stand anywhere: a configuration that states every value is valid.
TEST(Schema, AValueThatNothingReadsIsRefused) {
  Conditional options;
  const auto schema = describe(options);
  EXPECT_EQ(field_of(*schema, "strength").when(), "is_on: true");
  const auto fault = [&] {
    return error_of<ConfigError>([&] { field_of(*schema, "strength").require_effect(); });
  };
  EXPECT_EQ(fault(), "no error");
  options.strength = 2;
  EXPECT_EQ(fault(), "has no effect unless is_on: true");
  options.is_on = true;
  EXPECT_EQ(fault(), "no error");
}

TEST(Validate, KnowsTheDefaultsOfAFilledStruct) {
  const auto fault = [](const auto& options) {
    return error_of<ConfigError>([&] { validate_options(options, "name"); });
  };
  Conditional options;
  EXPECT_EQ(fault(options), "no error");
  options.strength = 2;
  EXPECT_EQ(fault(options), "name: strength: has no effect unless is_on: true");
  options.strength = 0;
  EXPECT_EQ(fault(options), "name: strength: must be > 0, got 0");
  struct Holder {
    std::vector<Conditional> list = std::vector<Conditional>(1);
    Conditional below;
    void describe(Schema& schema) {
      schema.list("list", list, "");
      schema.section("below", below, "");
    }
  };
  Holder holder;
  EXPECT_EQ(fault(holder), "no error");
  holder.below.strength = 3;
  EXPECT_EQ(fault(holder), "name: below: strength: has no effect unless is_on: true");
  holder.below.is_on = true;
  holder.list[0].strength = 3;
  EXPECT_EQ(fault(holder), "name: list[0]: strength: has no effect unless is_on: true");
}

// What is computed with counts cannot overflow; a seed may be any number.
TEST(Schema, CountsHaveALargestUnlessTheyAreUnbounded) {
  std::int64_t count = 1, seed = 1;
  std::vector<std::int64_t> counts;
  Schema schema;
  schema.field("count", count, "").positive();
  schema.field("counts", counts, "").non_negative();
  schema.field("seed", seed, "").non_negative().unbounded();
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  field_of(schema, "count").assign(largest_count);
  field_of(schema, "seed").assign(largest);
  EXPECT_EQ(count, largest_count);
  EXPECT_EQ(seed, largest);
  const auto refusal = [&](const char* key, OptionValue value) {
    return error_of<ConfigError>([&] { field_of(schema, key).assign(value); });
  };
  EXPECT_EQ(refusal("count", largest_count + 1),
            "must be at most 1000000000000000, got 1000000000000001");
  EXPECT_THAT(refusal("counts", std::vector<std::int64_t>{1, largest}),
              ::testing::HasSubstr("must be at most"));
  EXPECT_EQ(count, largest_count);
}

TEST(Schema, KeepsTheDefaultWhenTheMemberChanges) {
  AllTypes options;
  const auto schema = describe(options);
  field_of(*schema, "small").assign(std::int64_t{9});
  EXPECT_EQ(field_of(*schema, "small").initial(), OptionValue(std::int64_t{3}));
}

TEST(Schema, RefusesValuesOutsideTheLimits) {
  AllTypes options;
  const auto schema = describe(options);
  const auto refusal = [&](const char* key, OptionValue value) {
    return error_of<ConfigError>([&] { field_of(*schema, key).assign(value); });
  };
  EXPECT_EQ(refusal("number", 1.0), "must be in [0, 1), got 1");
  EXPECT_EQ(refusal("number", -0.5), "must be in [0, 1), got -0.5");
  EXPECT_EQ(refusal("number", std::nan("")), "must be finite, got nan");
  EXPECT_EQ(refusal("maybe_number", HUGE_VAL), "must be finite, got inf");
  EXPECT_EQ(refusal("maybe_number", 0.0), "must be > 0, got 0");
  EXPECT_EQ(refusal("numbers", std::vector<double>{1, -1}), "must be in (-1, 1], got -1");
  EXPECT_EQ(refusal("integers", std::vector<std::int64_t>{1, 0}), "must be > 0, got 0");
  EXPECT_EQ(refusal("small", std::int64_t{1} << 31),
            "must be in [-2147483648, 2147483647], got 2147483648");
  EXPECT_EQ(refusal("natural", std::int64_t{-1}), "must be in [0, 9223372036854775807], got -1");
  EXPECT_EQ(refusal("decay", std::string("cosin")),
            "unknown choice 'cosin'; did you mean 'cosine'?");
  EXPECT_EQ(refusal("texts", std::vector<std::string>{"zz"}), "unknown choice 'zz'; known: a, bee");
  EXPECT_EQ(refusal("small", OptionValue{}), "expected integer, got null");
  EXPECT_EQ(options.number, 0.5);
  EXPECT_THAT(options.integers, ElementsAre(1, 2));
}

TEST(Schema, MisuseIsAnError) {
  double number = 1;
  std::string text;
  Schema schema;
  schema.field("number", number, "");
  EXPECT_THROW(schema.field("number", number, ""), Error);
  EXPECT_THROW(schema.section("number", ""), Error);
  EXPECT_THROW(schema.field("text", text, "").positive(), Error);
  EXPECT_THROW(schema.field("third", number, "").one_of({"a"}), Error);
  EXPECT_THROW(schema.field("fourth", number, "").unbounded(), Error);
}

struct Animal {
  virtual ~Animal() = default;
  virtual void describe(Schema& schema) = 0;
};

struct Dog : Animal {
  int tricks = 2;
  void describe(Schema& schema) override { schema.field("tricks", tricks, "how many"); }
};

struct Cat : Animal {
  double naps = 7;
  void describe(Schema& schema) override { schema.field("naps", naps, "a day"); }
};

Registry<Animal> animals() {
  Registry<Animal> registry;
  registry.add<Dog>("dog", "barks").add<Cat>("cat", "does not");
  return registry;
}

std::vector<std::string> keys_of(const Schema& schema) {
  std::vector<std::string> keys;
  for (const OptionEntry* entry : schema.entries()) keys.push_back(key_of(*entry));
  return keys;
}

TEST(Registry, ChoosesByNameInOrderOfAddition) {
  const Registry<Animal> registry = animals();
  EXPECT_THAT(registry.names(), ElementsAre("dog", "cat"));
  EXPECT_TRUE(registry.contains("cat"));
  EXPECT_FALSE(registry.contains("cow"));
  const Chosen<Animal> chosen = registry.choose("cat");
  EXPECT_EQ(chosen.name, "cat");
  EXPECT_NE(dynamic_cast<Cat*>(chosen.options.get()), nullptr);
  EXPECT_EQ(error_of<ConfigError>([&] { registry.choose("dgo"); }),
            "unknown name 'dgo'; did you mean 'dog'?");
  EXPECT_EQ(error_of<ConfigError>([&] { registry.choose("elephant"); }),
            "unknown name 'elephant'; known: dog, cat");
}

TEST(Registry, ANameTwiceIsAnError) {
  Registry<Animal> registry = animals();
  EXPECT_THROW(registry.add<Dog>("dog", "again"), Error);
}

TEST(Schema, AVariantPutsTheKeysOfItsKindBesideItself) {
  const Registry<Animal> registry = animals();
  Chosen<Animal> pet;
  int legs = 4;
  Schema schema;
  schema.variant("kind", pet, registry, "which animal");
  schema.field("legs", legs, "how many");
  EXPECT_THAT(keys_of(schema), ElementsAre("kind", "legs"));

  auto& variant = std::get<OptionVariant>(schema.described().front());
  EXPECT_EQ(variant.current(), "");
  variant.choose("dog");
  EXPECT_THAT(keys_of(schema), ElementsAre("kind", "tricks", "legs"));
  field_of(schema, "tricks").assign(std::int64_t{11});
  EXPECT_EQ(dynamic_cast<Dog&>(*pet).tricks, 11);

  variant.choose("dog");
  EXPECT_EQ(dynamic_cast<Dog&>(*pet).tricks, 11) << "the current kind must keep its options";
  variant.choose("cat");
  EXPECT_THAT(keys_of(schema), ElementsAre("kind", "naps", "legs"));
  EXPECT_EQ(error_of<ConfigError>([&] { variant.choose("cta"); }),
            "unknown name 'cta'; did you mean 'cat'?");
  EXPECT_EQ(pet.name, "cat");
}

TEST(Schema, AKindMayNotTakeAKeyOfItsSection) {
  const Registry<Animal> registry = animals();
  Chosen<Animal> pet = registry.choose("dog");
  int tricks = 0;
  Schema schema;
  schema.variant("kind", pet, registry, "which animal");
  EXPECT_THROW(schema.field("tricks", tricks, ""), Error);

  pet = registry.choose("cat");
  Schema other;
  other.variant("kind", pet, registry, "which animal");
  other.field("tricks", tricks, "");
  std::get<OptionVariant>(other.described().front()).choose("dog");
  EXPECT_THROW(other.entries(), Error);
}

struct Pair {
  int first = 1;
  int second = 2;
  void describe(Schema& schema) {
    schema.field("first", first, "");
    schema.field("second", second, "");
  }
};

TEST(Schema, AListOfStructsIsDescribedElementByElement) {
  std::vector<Pair> pairs(1);
  Schema schema;
  schema.list("pairs", pairs, "pairs");
  const auto& list = std::get<OptionList>(*schema.find("pairs"));
  EXPECT_EQ(list.size(), 1u);
  list.reset(3);
  field_of(*list.element(2), "second").assign(std::int64_t{8});
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[2].second, 8);
  EXPECT_EQ(pairs[1].second, 2);
  EXPECT_THAT(keys_of(*list.preview().schema), ElementsAre("first", "second"));
}

}  // namespace
}  // namespace mobius::schema_test
