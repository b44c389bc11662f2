// Reads a configuration document strictly into the options structs behind a Schema.
//
//   ConfigDocument document = ConfigDocument::from_file("run.yaml");
//   document.override_with("optimizer.lr=3e-4");
//   RunOptions options;
//   Schema schema;
//   options.describe(schema);
//   read_config(document, schema);
#pragma once

#include "core/options/schema.h"
#include "train/config/document.h"

namespace mobius {

/// Sets every member of the schema that the document mentions and leaves the others at their
/// defaults, then runs the schema's checks.
///
/// Throws one ConfigError with the first eight or so faults, in the form
///
///   run.yaml:12:7: optimizer.lr: must be > 0, got -1; also override optimizer.lrr=1:
///   optimizer.lrr: unknown key; did you mean 'optimizer.lr'?
///
/// on one line. Faults are: an unknown key, a key of another kind of its section, a wrong type, a
/// value out of range, a null that is not a value, a missing required key, a failed check. Checks
/// run only if nothing else is wrong, and those of a section only if all below it hold, so that
/// each fault is reported once. After an error the members are in no particular state.
void read_config(const ConfigDocument& document, Schema& schema);

}  // namespace mobius
