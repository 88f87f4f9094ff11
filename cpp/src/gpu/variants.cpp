#include "gpu/variants.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "gpu/vendors.hpp"
#include "tabgpt/error.hpp"

namespace tabgpt::gpu {
namespace {

using std::string_view;

struct Variant {
  string_view family, name;
  string_view feature;  ///< of WebGPU; "" where none is needed
  bool trains;
  void (*choose)(Variants*);
};

template <Matmul kind>
void choose(Variants* variants) {
  variants->matmul = kind;
}
template <Attention kind>
void choose(Variants* variants) {
  variants->attention = kind;
}

/** A family's first is its default. */
constexpr Variant kVariants[] = {
    {"matmul", "vec4", "", true, choose<Matmul::vec4>},
    {"matmul", "blocked4", "", true, choose<Matmul::blocked4>},
    {"matmul", "tiled", "", true, choose<Matmul::tiled>},
    {"matmul", "naive", "", true, choose<Matmul::naive>},
    {"matmul", "subgroup", "subgroups", false, choose<Matmul::subgroup>},
    {"matmul", "f16", "shader-f16", false, choose<Matmul::f16>},
    {"matmul", "blocked8", "", false, choose<Matmul::blocked8>},
    {"matmul", "tiled_f16", "shader-f16", false, choose<Matmul::tiled_f16>},
    {"matmul", "f16_packed", "", false, choose<Matmul::f16_packed>},
    {"attention", "flash", "", true, choose<Attention::flash>},
    {"attention", "plain", "", true, choose<Attention::plain>},
};

bool is_default(const Variant& variant) {
  return &variant == std::find_if(std::begin(kVariants), std::end(kVariants),
                                  [&](const Variant& other) { return other.family == variant.family; });
}

bool is_for(const Variant& variant, Purpose purpose) { return variant.trains || purpose == Purpose::bench; }

/** The names there are in a family, for an error; "" for an unknown family. */
std::string names(string_view family, Purpose purpose) {
  std::string list;
  for (const Variant& variant : kVariants) {
    if (variant.family != family || !is_for(variant, purpose)) continue;
    list += (list.empty() ? "" : ", ") + std::string(variant.name);
  }
  return list;
}

/** The words of a text as (before, after) the "=". */
struct Word {
  std::string key, value;
};

std::vector<Word> words_of(string_view text) {
  std::vector<Word> words;
  while (!text.empty()) {
    // Not text.find: inlined, it makes GCC 12 warn of a length of SIZE_MAX that cannot be.
    const auto end = static_cast<size_t>(std::find(text.begin(), text.end(), ' ') - text.begin());
    const string_view word = text.substr(0, end);
    const size_t equals = std::min(word.find('='), word.size());
    if (!word.empty()) {
      words.push_back(
          {std::string(word.substr(0, equals)), std::string(word.substr(std::min(equals + 1, word.size())))});
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/** The vendor that the words name last. */
const Vendor& vendor_of(const std::vector<Word>& words) {
  const Vendor* named = &kAnyVendor;
  for (const auto& [key, value] : words) {
    if (key != "vendor") continue;
    const Vendor* const found =
        std::find_if(std::begin(kVendors), std::end(kVendors),
                     [&, name = string_view(value)](const Vendor& vendor) { return vendor.name == name; });
    named = found == std::end(kVendors) ? &kAnyVendor : found;
  }
  return *named;
}

}  // namespace

bool parse_variants(const char* text, Purpose purpose, Variants* variants) {
  const std::vector<Word> words = words_of(text == nullptr ? "" : text);
  const auto has_feature = [&](string_view name) {
    return std::any_of(words.begin(), words.end(),
                       [&](const Word& word) { return word.key == "feature" && word.value == name; });
  };
  const Vendor& vendor = vendor_of(words);
  variants->matmul = vendor.matmul;
  variants->full_grid = vendor.full_grid;
  for (const Word& word : words) {
    const std::string& family = word.key;  // not a structured binding: clang before 16 has none in a lambda
    const std::string& name = word.value;
    if (family == "feature" || family == "vendor") continue;
    const std::string known = names(family, purpose);
    if (known.empty()) {
      return fail(
          "unknown word '%.100s' in a choice of GPU kernels; there are matmul=, attention=, feature= and "
          "vendor=",
          family.c_str());
    }
    const Variant* const found = std::find_if(
        std::begin(kVariants), std::end(kVariants),
        [&](const Variant& variant) { return variant.family == family && variant.name == name; });
    if (found == std::end(kVariants)) {
      return fail("unknown %s '%.100s'; there are %s", family.c_str(), name.c_str(), known.c_str());
    }
    if (!is_for(*found, purpose)) {
      return fail("the %s '%s' is for benches alone; train with %s", family.c_str(), name.c_str(),
                  known.c_str());
    }
    if (!found->feature.empty() && !has_feature(found->feature)) {
      return fail("the %s '%s' needs the WebGPU feature '%s', which this device does not have; there are %s",
                  family.c_str(), name.c_str(), std::string(found->feature).c_str(), known.c_str());
    }
    found->choose(variants);
  }
  return true;
}

const std::string& variants_json() {
  static const std::string json = [] {
    std::string text;
    const auto field = [&](const char* key, string_view value) {
      text += '"' + std::string(key) + "\":\"" + std::string(value) + "\",";
    };
    const auto flag = [](bool value) { return value ? "true" : "false"; };
    for (const Variant& variant : kVariants) {
      text += text.empty() ? "[{" : ",\n {";
      field("family", variant.family);
      field("name", variant.name);
      field("feature", variant.feature);
      text += "\"training\":" + std::string(flag(variant.trains));
      text += ",\"default\":" + std::string(flag(is_default(variant))) + '}';
    }
    return text + "]\n";
  }();
  return json;
}

}  // namespace tabgpt::gpu
