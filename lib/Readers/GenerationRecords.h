//===- GenerationRecords.h - Requests and answers as JSON -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads what clients keep of a model's answers into `requests` and `tokens`:
/// responses of OpenAI's API and of those that speak it (vLLM, SGLang, TGI,
/// llama.cpp), with the request beside them or without it, OpenAI's batch
/// files, dumps of streams, and plain lists of prompts and answers. The file
/// is one record, a list, one record a line, or records behind each other.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_GENERATIONRECORDS_H
#define CULPRIT_READERS_GENERATIONRECORDS_H

#include "Readers/Reader.h"

namespace culprit {

class GenerationRecordsReader : public Reader {
public:
  llvm::StringRef name() const override { return "generations"; }
  llvm::StringRef about() const override {
    return "requests and answers of a model as JSON: OpenAI, vLLM, TGI, "
           "SGLang, batches, streams, prompts with expected answers";
  }
  Match matches(const InputFile &File) const override;
  llvm::Error read(InputFile &File, Source &Into) const override;
};

} // namespace culprit

#endif // CULPRIT_READERS_GENERATIONRECORDS_H
