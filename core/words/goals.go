package words

// Latency goals, and the use of CPUs that follows from them.
var (
	GoalNone     = says("goal-none", "No workload has a latency goal: the target holds.")
	GoalNow      = says("goal-now", "Batch work gives way so that its goal holds: {} {} of {}, {%} of the limit is left.")
	GoalIs       = says("goal-is", "Its goal is {} of at most {}. {}")
	GoalWaits    = says("goal-waits", "Its metric has no value yet.")
	GoalUnread   = says("goal-unread", "Its metric cannot be read: {}.")
	GoalUnusable = says("goal-unusable", "the metric {} of its latency goal is {}: batch work follows the "+
		"target until it can be used")
	GoalStale    = says("goal-stale", "Its metric is stale: the newest value is {for} old.")
	GoalConstant = says("goal-constant", "Its metric never changes: {n reading} in a row are the same.")
	GoalFellBack = says("goal-fell-back", "{} cannot be used: batch work follows the target until it can, {%} "+
		"at most.")
	GoalNotYours = says("goal-not-yours", "Only root may set a latency goal with a command: batch work of all "+
		"users gives way for it. The operator can set one in the configuration (slo of a rule).")
	GoalBegins = says("goal-begins", "The use begins at {%}: what batch work had before says nothing about it.")
	GoalNear   = says("goal-near", "The use stays: {%} of the limit is left, and {%} is kept for noise.")
	GoalFalls  = says("goal-falls", "The use stays for one more scan: the value falls since the last step back.")
	GoalLeast  = says("goal-least", "{} misses its goal with batch work at its minimum: batch work is not the "+
		"cause, or not by its CPUs.")
	GoalBack    = says("goal-back", "Missed: the use goes from {%} to {%} at once.")
	GoalForward = says("goal-forward", "Slack: the use goes from {%} to {%}.")
	GoalSlack   = says("goal-slack", "{%} of the limit is left: if the next scan says so too, the use goes "+
		"from {%} to {%}.")
	GoalFull   = says("goal-full", "The use is at its most, {%}.")
	GoalRests  = says("goal-rests", "The use rests for {for} after a step back.")
	GoalWindow = says("goal-window", "The use stays for {for}, until the metric shows the last step.")
	GoalUnused = says("goal-unused", "The use stays: batch work uses no more, {%} of the CPUs are busy of {%} "+
		"allowed.")
	GoalCeiling = says("goal-ceiling", "The use stays: at {%} a goal was missed, and that is tried again in {for}.")
	GoalTries   = says("goal-tries", "Batch work gets less of {} for a while, {} % of what it has, to see "+
		"whether that hurts.")
	GoalTrying   = says("goal-trying", "Batch work has less of {} for another {for}, to see whether it hurts.")
	GoalHurts    = says("goal-hurts", "Less {} for batch work brought {%} of the limit: it stays limited.")
	GoalHarmless = says("goal-harmless", "Less {} for batch work brought nothing: the limit is removed, and not "+
		"tried again for {for}.")
)
