#include "data/tasks.h"

#include "data/mqar.h"
#include "data/recall.h"

namespace mobius {

Registry<TaskOptions> builtin_tasks() {
  Registry<TaskOptions> tasks;
  tasks.add<MqarOptions>("mqar", "multi-query associative recall: say the value paired with a key");
  tasks.add<RecallOptions>("recall", "repeat a random sequence of tokens");
  return tasks;
}

}  // namespace mobius
