// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice inspect`: what a package holds, as text or JSON.
#include "tools/Commands.h"

#include <iostream>
#include <nlohmann/json.hpp>

namespace sluice {

using nlohmann::json;

static std::string text(const flatbuffers::String *s) { return s ? s->str() : std::string(); }

static json describe(const PackageReader &package) {
  const manifest::Manifest &m = package.manifest();
  json out;
  out["file_bytes"] = package.fileBytes();
  if (const auto *model = m.model()) {
    out["model"] = {{"name", text(model->name())},
                    {"vocab", model->vocab()},
                    {"context", model->context()},
                    {"layers", model->layers()},
                    {"hidden", model->hidden()},
                    {"experts", model->experts()},
                    {"experts_per_token", model->experts_per_token()},
                    {"parameters", model->parameters()},
                    {"active_parameters", model->active_parameters()}};
  }
  for (const auto *code : *m.code()) {
    out["code"].push_back({{"target", text(code->target())},
                           {"arch", text(code->arch())},
                           {"cpu", text(code->cpu())}});
  }
  uint64_t weightBytes = 0;
  json weights = json::array();
  if (m.weights()) {
    for (const auto *w : *m.weights()) {
      weightBytes += w->bytes();
      json shape = json::array();
      for (uint64_t d : *w->shape()) {
        shape.push_back(d);
      }
      weights.push_back({{"name", text(w->name())},
                         {"element", manifest::EnumNameElementType(w->element())},
                         {"shape", shape},
                         {"layout", text(w->layout())},
                         {"bytes", w->bytes()}});
    }
  }
  out["weight_bytes"] = weightBytes;
  out["weights"] = std::move(weights);
  for (const auto *program : *m.programs()) {
    json groups = json::array();
    for (const auto *g : *program->groups()) {
      groups.push_back({{"window", g->window()},
                        {"element", manifest::EnumNameElementType(g->element())},
                        {"kv_heads", g->kv_heads()},
                        {"layers", g->layers()},
                        {"bytes_per_token", g->block_bytes() / program->kv_block_tokens()}});
    }
    out["programs"].push_back({{"name", text(program->name())},
                               {"launches", program->entries()->size()},
                               {"functions", program->functions()->size()},
                               {"cache_groups", groups}});
  }
  if (const auto *p = m.provenance()) {
    out["provenance"] = {{"compiler", text(p->compiler())},
                         {"source", text(p->source())},
                         {"producer", text(p->producer())},
                         {"options", text(p->options())}};
  }
  if (m.warnings()) {
    for (const auto *w : *m.warnings()) {
      out["warnings"].push_back(w->str());
    }
  }
  return out;
}

/// Indented "key: value" lines; lists of objects one line each.
static void print(const json &value, const std::string &indent) {
  for (const auto &[key, v] : value.items()) {
    if (key == "weights") {
      std::cout << indent << "weights: " << v.size() << " (each with --json)\n";
    } else if (v.is_object()) {
      std::cout << indent << key << ":\n";
      print(v, indent + "  ");
    } else if (v.is_array()) {
      std::cout << indent << key << ":\n";
      for (const json &item : v) {
        std::cout << indent << "  " << (item.is_string() ? item.get<std::string>() : item.dump())
                  << "\n";
      }
    } else {
      std::cout << indent << key << ": " << (v.is_string() ? v.get<std::string>() : v.dump())
                << "\n";
    }
  }
}

std::function<int()> addInspectCommand(CLI::App &app) {
  auto path = std::make_shared<std::string>();
  auto asJson = std::make_shared<bool>(false);
  app.add_option("PACKAGE", *path, "A .sluice file")->required();
  app.add_flag("--json", *asJson, "One JSON object on standard output");
  return [=] {
    auto package = PackageReader::open(*path);
    if (!package) {
      return reportError(package.error());
    }
    json out = describe(*package);
    if (*asJson) {
      std::cout << out.dump() << "\n";
    } else {
      print(out, "");
    }
    return kExitDone;
  };
}

} // namespace sluice
