#include "data/tasks.h"

#include "data/lm.h"
#include "data/mqar.h"
#include "data/recall.h"

namespace mobius {

Registry<TaskOptions> builtin_tasks() {
  Registry<TaskOptions> tasks;
  tasks.add<MqarOptions>("mqar",
                         "multi-query associative recall: predict the value paired with a key");
  tasks.add<RecallOptions>("recall", "repeat a random sequence of tokens");
  tasks.add<LmOptions>("lm", "language modelling: predict the next token of a text");
  return tasks;
}

}  // namespace mobius
