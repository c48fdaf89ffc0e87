//===- GenerationFields.h - What a record says of a request -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the two sides of a request in a record, whoever wrote it, and takes
/// the fields of both:
///
///   {"id": ..., "choices": [...], "usage": {...}}       a response alone
///   {"model": ..., "messages": [...], "seed": 1}        a request alone
///   {"request": {...}, "response": {...}, "latency_ms": 12}
///   {"custom_id": ..., "response": {"status_code", "body"}}  OpenAI batches
///   {"generated_text", "details"}, {"text", "meta_info"}     TGI, SGLang
///   {"question": ..., "answer": ..., "expected": ..., "correct": true}
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GENERATIONFIELDS_H
#define CULPRIT_READERS_GENERATIONFIELDS_H

#include "Readers/RequestRows.h"
#include "Support/LooseTree.h"

namespace culprit {

/// Where the parts of a record are; the same value where they are not apart.
struct GenerationParts {
  LooseValue Record;
  LooseValue Request;  ///< None in a record of a response alone.
  LooseValue Response; ///< None in a record of a request alone.
  /// Elements of `choices` or `outputs`; none for other servers.
  LooseValue Choices;
};

GenerationParts partsOf(LooseValue Record);

/// What \p Parts says of the request, without the answer of its choices.
RequestRecord requestOf(const GenerationParts &Parts);

/// Puts the answer, or the piece of it, that \p Choice has into \p R.
void addChoice(LooseValue Choice, RequestRecord &R);

/// The id of the record; empty where it has none.
std::string idOf(const GenerationParts &Parts);

} // namespace culprit

#endif // CULPRIT_READERS_GENERATIONFIELDS_H
