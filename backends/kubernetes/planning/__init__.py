"""What to do next about one cluster. Pure.

Others call:

* `plan.plan(desired, observed, now) -> Plan`: the decision table;
* `orphans.plan_orphan(anchor, sightings, now)`: an anchor whose cluster is gone;
* `inputs`: `Desired`, `Observed`, `Refusal`, what the planner is given;
* `actions`: `Plan` and the actions that the executor carries out, in order;
* `conditions.is_urgent(before, after)`: whether a status can wait for the next change.

How a plan is carried out:

1. If ``plan.stores_first``, write ``plan.status`` by compare-and-set
   (`crd.formatting.format_status_patch`) before the first action, also when nothing
   in it differs. A conflict ends the round: look again.
2. Carry out ``plan.actions`` in order. The first that is refused ends the round:
   remember it as a `Refusal` in the next `Observed` and look again at once.
3. Else write ``plan.status`` now, if it differs; one that is not urgent may wait for
   `conditions.SETTLE`, since the next change often makes it needless.
4. Look again after ``plan.requeue_after``, and at once after a plan that asked for
   something: `actions.LookUp`, `actions.KeepLogTail`.
"""
