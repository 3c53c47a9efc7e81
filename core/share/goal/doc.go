// Package goal finds the highest use of a host's CPUs at which the latency goals of its important
// workloads hold. The use replaces the fixed target of package share.
//
// Words: a goal is a metric of one workload and the most that it may be. Its slack is the part of
// that limit which is left: (limit - value) / limit. The use is the share of the pool's CPUs that
// may be busy, 0 to 1.
//
// The controller, at each scan:
//
//   - The goal with the least slack decides. Slack drives the size of each step, as in Heracles
//     (Lo and others, ISCA 2015).
//   - A missed goal lowers the use at once. A second miss halves what batch work has, a third one
//     leaves it its minimum. A step needs evidence from after the last one: while the window of its
//     metric reaches back before that step, a value that falls waits, and one that stays waits for 30 s at most.
//   - Two scans with more slack than the margin raise the use by one step. The margin follows the
//     noise of the metric. Nothing is raised that batch work does not ask for.
//   - The use after a missed goal is a ceiling. It is raised when the least slack over a whole hold,
//     with every burst of load in it, leaves more than the margin. The hold is a minute, and doubles
//     up to 16 minutes while a raise is followed by a miss, so that nothing swings.
//   - Use and ceiling belong to a level of online load, a tenth of the pool: at a high load less use holds than at a
//     low one, and a spike must not bring down the use between spikes. A miss lowers the ceilings of all higher
//     levels, too.
//   - Where the ceiling holds the use down, one other resource of batch work is limited for a while
//     to find out which one hurts, as in PARTIES (Chen, Delimitrou and Martinez, ASPLOS 2019). A
//     limit that brings slack stays; another one is removed and not tried again for an hour.
//   - The use at which goals held is remembered for each hour of the week. It is forgotten when
//     no workload, limit and metric is the same as before.
//   - A metric that cannot be read, is stale or never changes is reported. The use then is the
//     target, or the last use at which the goals held if that is lower.
//
// The package reads no metrics: package daemon does, outside its loop, and a scan carries the
// readings. It sets nothing: core/share divides the use among nodes and batch work.
//
// Invariant: with a missed goal the use never rises (TestMissedNeverRises); without a usable reading it is never
// above the target (TestUnusableFallsBack).
package goal
