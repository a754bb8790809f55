// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens and parses the file, checks its header, and builds the module.
#include "compiler/import/ImportModel.h"

#include "compiler/import/GraphImporter.h"
#include "compiler/import/ProtoSplit.h"
#include "compiler/import/TensorReader.h"
#include "dialects/onnx/InferShapes.h"
#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/Support/Path.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "onnx/onnx-ml.pb.h"

using namespace mlir;
namespace sluicec {

namespace {
// The parse of a mapped file without its large tensors; protobuf's own messages go to standard
// error and are silenced.
llvm::Error parseModel(const MappedFile &file, ::onnx::ModelProto &model) {
  llvm::ArrayRef<char> bytes = file.bytes();
  if (bytes.empty()) {
    return llvm::createStringError("the file is empty");
  }
  if (llvm::StringRef format = foreignFormat(bytes); !format.empty()) {
    return llvm::createStringError("expected an ONNX model, found " + format);
  }
  llvm::Expected<std::string> rest = splitModel(bytes);
  if (!rest) {
    return rest.takeError();
  }
  if (rest->size() > static_cast<size_t>(INT_MAX)) {
    return llvm::createStringError("the graph without its tensor data has more than 2 GiB");
  }
  google::protobuf::io::ArrayInputStream stream(rest->data(), static_cast<int>(rest->size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(INT_MAX);
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) {
    return llvm::createStringError(
        "the file is damaged or no ONNX model: protobuf cannot parse it");
  }
  if (!model.has_ir_version() || !model.has_graph()) {
    return llvm::createStringError(llvm::Twine("no ONNX model: it has no ") +
                                   (model.has_ir_version() ? "graph" : "ir_version"));
  }
  return llvm::Error::success();
}

// The opset of each imported domain; "" is ai.onnx.
llvm::Expected<OpsetMap> readOpsets(const ::onnx::ModelProto &model) {
  if (model.ir_version() < 3 || model.ir_version() > onnx::kMaxIrVersion) {
    return llvm::createStringError("IR version " + llvm::Twine(model.ir_version()) +
                                   ", expected 3 to " + llvm::Twine(onnx::kMaxIrVersion) +
                                   (model.ir_version() > onnx::kMaxIrVersion
                                        ? "; export with an older onnx or update sluicec"
                                        : ""));
  }
  OpsetMap opsets;
  for (const auto &entry : model.opset_import()) {
    llvm::StringRef domain = entry.domain() == "ai.onnx" ? "" : llvm::StringRef(entry.domain());
    auto [known, isNew] = opsets.try_emplace(domain, entry.version());
    if (!isNew && known->second != entry.version()) {
      return llvm::createStringError("domain '" + domain + "' is imported in versions " +
                                     llvm::Twine(known->second) + " and " +
                                     llvm::Twine(entry.version()));
    }
  }
  auto standard = opsets.find("");
  if (standard != opsets.end() &&
      (standard->second < onnx::kMinOpset || standard->second > onnx::kMaxOpset)) {
    return llvm::createStringError(
        "opset " + llvm::Twine(standard->second) + ", expected " + llvm::Twine(onnx::kMinOpset) +
        " to " + llvm::Twine(onnx::kMaxOpset) + "; re-export with a supported opset");
  }
  auto microsoft = opsets.find(onnx::kMicrosoftDomain);
  if (microsoft != opsets.end() && microsoft->second > onnx::kMaxMicrosoftOpset) {
    return llvm::createStringError("opset " + llvm::Twine(microsoft->second) +
                                   " of com.microsoft, expected " +
                                   llvm::Twine(onnx::kMaxMicrosoftOpset));
  }
  if (opsets.empty()) {
    return llvm::createStringError("the model imports no operator set");
  }
  return opsets;
}

void setModuleAttributes(ModuleOp module, const ::onnx::ModelProto &model, const OpsetMap &opsets,
                         llvm::StringRef file) {
  Builder builder(module.getContext());
  llvm::SmallVector<NamedAttribute> versions;
  for (const auto &entry : opsets) {
    llvm::StringRef domain = entry.first().empty() ? "ai.onnx" : entry.first();
    versions.push_back(builder.getNamedAttr(domain, builder.getI64IntegerAttr(entry.second)));
  }
  std::string producer = model.producer_name();
  if (!model.producer_version().empty()) {
    producer += " " + model.producer_version();
  }
  module->setAttr(onnx::kOpsetAttr, builder.getDictionaryAttr(versions));
  module->setAttr(onnx::kIrVersionAttr, builder.getI64IntegerAttr(model.ir_version()));
  module->setAttr(onnx::kProducerAttr, builder.getStringAttr(producer));
  module->setAttr(onnx::kFileAttr, builder.getStringAttr(file));
}

// Every value must have an element type; a shape may stay unknown.
LogicalResult checkTypes(func::FuncOp function) {
  WalkResult walk = function.walk([](onnx::NodeOp node) {
    for (OpResult result : node->getResults()) {
      auto type = dyn_cast<TensorType>(result.getType());
      if (type && isa<onnx::UnknownType>(type.getElementType())) {
        onnx::NodeBinder(node).error() << "the element type of result " << result.getResultNumber()
                                       << " cannot be inferred and the file does not state it";
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}
} // namespace

FailureOr<ImportedModel> importModel(llvm::StringRef path, const ImportOptions &options,
                                     MLIRContext *context) {
  context->loadDialect<onnx::OnnxDialect, func::FuncDialect>();
  std::string name = llvm::sys::path::filename(path).str();
  auto fileError = [&](llvm::Error error) {
    emitError(onnx::makeLocation(context, name, name, 0, onnx::LocationKind::File))
        << llvm::toString(std::move(error));
    return failure();
  };
  llvm::Expected<std::string> modelPath = findModelFile(path);
  if (!modelPath) {
    return fileError(modelPath.takeError());
  }
  name = llvm::sys::path::filename(*modelPath).str();
  auto mapped = MappedFile::open(*modelPath);
  if (!mapped) {
    return fileError(mapped.takeError());
  }
  ::onnx::ModelProto model;
  if (llvm::Error error = parseModel(**mapped, model)) {
    return fileError(std::move(error));
  }
  llvm::Expected<OpsetMap> opsets = readOpsets(model);
  if (!opsets) {
    return fileError(opsets.takeError());
  }
  llvm::Expected<ModelFiles> files = readModelFiles(*modelPath);
  if (!files) {
    return fileError(files.takeError());
  }

  Location location = onnx::makeLocation(context, name, name, 0, onnx::LocationKind::File);
  ImportedModel imported{ModuleOp::create(location), std::move(*files)};
  setModuleAttributes(*imported.module, model, *opsets, name);
  TensorReader tensors(support::WeightStore::attach(context), *mapped, imported.files.folder,
                       options.externalDataRoot);
  GraphImporter importer(*imported.module, model, *opsets, tensors);
  FailureOr<func::FuncOp> main = importer.importMain();
  if (failed(main)) {
    return failure();
  }
  if (options.inferShapes) {
    FailureOr<onnx::ShapeFacts> facts = onnx::inferShapes(*main);
    if (failed(facts) || failed(checkTypes(*main)) || failed(importer.checkOutputs(*main))) {
      return failure();
    }
    if (options.foldShapes) {
      onnx::foldKnownValues(*main, *facts);
    }
  }
  if (failed(verify(*imported.module))) {
    return failure();
  }
  return imported;
}

} // namespace sluicec
