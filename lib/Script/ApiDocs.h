//===- ApiDocs.h - Api.def for people and editors ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What is generated from Api.def and Tables.def. The files are kept in the
/// repository, so that they can be read there; a unit test compares.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_APIDOCS_H
#define CULPRIT_SCRIPT_APIDOCS_H

#include <string>

namespace culprit {

/// plugins/meta/culprit.lua: LuaCATS types for editors.
std::string apiStub();

/// docs/api.md.
std::string apiManual();

/// test/lit/script/Inputs/api-v1.txt: a line for all that may not be taken
/// away or changed within this version of the API.
std::string apiList();

} // namespace culprit

#endif // CULPRIT_SCRIPT_APIDOCS_H
