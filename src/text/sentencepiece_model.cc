#include "text/sentencepiece_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/proto_reader.h"

namespace erne {
namespace {

// Values of ModelProto.SentencePiece.Type.
enum PieceType : uint64_t {
  kNormalType = 1,
  kUnknownType = 2,
  kControlType = 3,
  kUserDefinedType = 4,
  kUnusedType = 5,
  kByteType = 6,
};

constexpr uint64_t kUnigram = 1;  // values of TrainerSpec.ModelType
constexpr uint64_t kBpe = 2;

struct Piece {
  std::string_view text;
  float score = 0;
  uint64_t type = kNormalType;
};

// The fields that matter, with the defaults of the .proto file.
struct Model {
  std::vector<Piece> pieces;
  uint64_t model_type = kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  std::string normalizer_name;
  bool has_charsmap = false;
  bool dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
  bool has_decode_charsmap = false;
};

Status ExpectWire(const ProtoField& field, ProtoField::Wire wire, std::string_view name) {
  if (field.wire == wire) return {};
  return DataLoss(StrCat("`", name, "` has wire type ", static_cast<int>(field.wire), ", not ",
                         static_cast<int>(wire)));
}

Result<Piece> ReadPiece(ProtoReader reader) {
  Piece piece;
  while (!reader.AtEnd()) {
    ERNE_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.number == 1) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kBytes, "piece"));
      piece.text = field.bytes;
    } else if (field.number == 2) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kFixed32, "score"));
      piece.score = field.AsFloat();
    } else if (field.number == 3) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kVarint, "type"));
      piece.type = field.value;
    }
  }
  return piece;
}

Status ReadTrainerSpec(ProtoReader reader, Model& model) {
  while (!reader.AtEnd()) {
    ERNE_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.number == 3) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kVarint, "trainer_spec.model_type"));
      model.model_type = field.value;
    } else if (field.number == 24) {
      ERNE_RETURN_IF_ERROR(
          ExpectWire(field, ProtoField::kVarint, "trainer_spec.treat_whitespace_as_suffix"));
      model.space_as_suffix = field.value != 0;
    } else if (field.number == 35) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kVarint, "trainer_spec.byte_fallback"));
      model.byte_fallback = field.value != 0;
    }
  }
  return {};
}

Status ReadNormalizerSpec(ProtoReader reader, Model& model) {
  while (!reader.AtEnd()) {
    ERNE_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.number == 1) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kBytes, "normalizer_spec.name"));
      model.normalizer_name = SanitizeUtf8(field.bytes.substr(0, 100));
    } else if (field.number == 2) {
      ERNE_RETURN_IF_ERROR(
          ExpectWire(field, ProtoField::kBytes, "normalizer_spec.precompiled_charsmap"));
      model.has_charsmap = !field.bytes.empty();
    } else if (field.number >= 3 && field.number <= 5) {
      ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kVarint, "normalizer_spec"));
      bool& flag = field.number == 3   ? model.dummy_prefix
                   : field.number == 4 ? model.remove_extra_spaces
                                       : model.escape_spaces;
      flag = field.value != 0;
    }
  }
  return {};
}

Status ReadDenormalizerSpec(ProtoReader reader, Model& model) {
  while (!reader.AtEnd()) {
    ERNE_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.number == 2 && !field.bytes.empty()) model.has_decode_charsmap = true;
  }
  return {};
}

Result<Model> ReadModel(std::string_view bytes) {
  Model model;
  ProtoReader reader(bytes);
  while (!reader.AtEnd()) {
    ERNE_ASSIGN_OR_RETURN(const ProtoField field, reader.Next());
    if (field.number < 1 || field.number > 5 || field.number == 4) continue;
    ERNE_RETURN_IF_ERROR(ExpectWire(field, ProtoField::kBytes, StrCat("field ", field.number)));
    const ProtoReader nested(field.bytes, reader.OffsetOf(field));
    if (field.number == 1) {
      if (model.pieces.size() > kMaxTokenId) return DataLoss("too many pieces");
      Result<Piece> piece = ReadPiece(nested);
      if (!piece.ok()) return piece.status().WithContext(StrCat("piece ", model.pieces.size()));
      model.pieces.push_back(*piece);
    } else if (field.number == 2) {
      ERNE_RETURN_IF_ERROR(ReadTrainerSpec(nested, model));
    } else if (field.number == 3) {
      ERNE_RETURN_IF_ERROR(ReadNormalizerSpec(nested, model));
    } else {
      ERNE_RETURN_IF_ERROR(ReadDenormalizerSpec(nested, model));
    }
  }
  return model;
}

Status CheckSupported(const Model& model) {
  if (model.pieces.empty()) return DataLoss("it holds no pieces: not a SentencePiece model");
  if (model.model_type != kBpe) {
    constexpr std::array<const char*, 5> kNames = {"?", "unigram", "BPE", "word", "char"};
    return Unimplemented(StrCat("SentencePiece model type ",
                                model.model_type < kNames.size() ? kNames[model.model_type] : "?",
                                " (", model.model_type, ") is not supported, only BPE"));
  }
  if (model.has_charsmap) {
    return Unimplemented(StrCat("SentencePiece normalizer `", model.normalizer_name,
                                "` is not supported, only identity"));
  }
  if (model.has_decode_charsmap) {
    return Unimplemented("SentencePiece denormalizer_spec.precompiled_charsmap is not supported");
  }
  if (model.remove_extra_spaces) {
    return Unimplemented("SentencePiece normalizer_spec.remove_extra_whitespaces is not supported");
  }
  if (!model.escape_spaces) {
    return Unimplemented("SentencePiece normalizer_spec.escape_whitespaces=false is not supported");
  }
  if (model.space_as_suffix) {
    return Unimplemented("SentencePiece trainer_spec.treat_whitespace_as_suffix is not supported");
  }
  return {};
}

Result<TokenKind> KindOf(const Piece& piece) {
  switch (piece.type) {
    case kNormalType:
      return TokenKind::kNormal;
    case kUnknownType:
    case kControlType:
      return TokenKind::kSpecial;
    case kUserDefinedType:
      return TokenKind::kUserDefined;
    case kByteType:
      return TokenKind::kByte;
    case kUnusedType:
      return Unimplemented("pieces of type UNUSED are not supported");
    default:
      return DataLoss(StrCat("unknown piece type ", piece.type));
  }
}

// The rank of each piece: 0 for the highest score, pieces of equal score alike.
std::vector<uint32_t> RankByScore(const std::vector<Piece>& pieces) {
  std::vector<float> scores;
  scores.reserve(pieces.size());
  for (const Piece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  ranks.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    ranks.push_back(static_cast<uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) -
        scores.begin()));
  }
  return ranks;
}

Status FillTokens(const Model& model, TokenizerSpec& spec) {
  spec.tokens.reserve(model.pieces.size());
  int bytes = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const std::string where = StrCat("piece ", id);
    if (piece.text.empty()) return DataLoss(where + " is empty");
    if (FindInvalidUtf8(piece.text) != std::string_view::npos)
      return DataLoss(where + " is not UTF-8");
    if (!std::isfinite(piece.score)) return DataLoss(where + " has no finite score");
    Result<TokenKind> kind = KindOf(piece);
    if (!kind.ok()) return kind.status().WithContext(where);
    if (piece.type == kUnknownType) {
      if (spec.unknown_id >= 0) {
        return DataLoss(
            StrCat("pieces ", spec.unknown_id, " and ", id, " are both unknown pieces"));
      }
      spec.unknown_id = static_cast<int32_t>(id);
    }
    bytes += *kind == TokenKind::kByte ? 1 : 0;
    spec.tokens.push_back({std::string(piece.text), *kind});
  }
  if (spec.unknown_id < 0) return DataLoss("there is no unknown piece");
  if (bytes != (model.byte_fallback ? 256 : 0)) {
    return DataLoss(StrCat("byte_fallback is ", model.byte_fallback ? "true" : "false",
                           " and there are ", bytes, " byte pieces"));
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> ReadSentencePieceModel(std::string_view bytes) {
  ERNE_ASSIGN_OR_RETURN(const Model model, ReadModel(bytes));
  ERNE_RETURN_IF_ERROR(CheckSupported(model));
  TokenizerSpec spec;
  ERNE_RETURN_IF_ERROR(FillTokens(model, spec));
  spec.byte_fallback = model.byte_fallback;
  spec.prefix_space = model.dummy_prefix ? PrefixSpace::kEachSegment : PrefixSpace::kNever;
  ERNE_RETURN_IF_ERROR(DeriveMerges(RankByScore(model.pieces), spec));
  return spec;
}

}  // namespace erne
