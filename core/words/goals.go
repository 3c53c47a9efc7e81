package words

// Latency goals, and the use of CPUs that follows from them.
var (
	GoalNone = says("goal-none", "No workload has a latency goal: share.target applies.")
	GoalNow  = says("goal-now",
		"Batch work gives way so that its goal holds: {} {} of {}, {%} of the limit is left.")
	GoalIs       = says("goal-is", "Its goal is {} of at most {}. {}")
	GoalWaits    = says("goal-waits", "Its metric has no value yet.")
	GoalUnread   = says("goal-unread", "Its metric cannot be read: {}.")
	GoalUnusable = says("goal-unusable", "the metric {} of its latency goal is {}: share.target applies "+
		"until the metric can be used")
	GoalStale    = says("goal-stale", "Its metric is stale: the newest value is {for} old.")
	GoalConstant = says("goal-constant", "Its metric never changes: {n reading} in a row are the same.")
	GoalFellBack = says("goal-fell-back", "{} cannot be used: until it can, at most {%} of the CPUs may "+
		"be busy.")
	GoalNotYours = says("goal-not-yours", "Only root may set a latency goal with a command: batch work of all "+
		"users gives way for it. The operator can set one in the configuration (slo of a rule).")
	GoalBegins = says("goal-begins", "The use starts at {%}: the CPUs that batch work had before are no evidence.")
	GoalNear   = says("goal-near", "The use stays: {%} of the limit is left, and the margin for noise is {%}.")
	GoalOld    = says("goal-old", "The use stays for another {for}: part of the value was measured before the last "+
		"step back.")
	GoalFalls = says("goal-falls", "The use stays for one more scan: the value has fallen since the last step back.")
	GoalLeast = says("goal-least", "{} misses its goal with batch work at its minimum: batch work is not the "+
		"cause, or not through its CPUs.")
	GoalNext    = says("goal-next-value", "Missed: the use stays until the metric has a new value.")
	GoalBack    = says("goal-back", "Missed: the use goes from {%} to {%} at once.")
	GoalForward = says("goal-forward", "Slack: the use goes from {%} to {%}.")
	GoalSlack   = says("goal-slack", "{%} of the limit is left: if the next scan confirms it, the use goes "+
		"from {%} to {%}.")
	GoalFull  = says("goal-full", "The use is at its maximum, {%}.")
	GoalLevel = says("goal-level", "Online work keeps {%} of the CPUs busy now: the use goes from {%} to {%}, "+
		"which held at this load.")
	GoalRests  = says("goal-rests", "The use stays for another {for} after a step back.")
	GoalWindow = says("goal-window", "The use stays for {for}, until the metric shows the effect of the last step.")
	GoalUnused = says("goal-unused", "The use stays: batch work needs no more. {%} of the CPUs are busy, {%} "+
		"may be.")
	GoalCeiling  = says("goal-ceiling", "The use stays at its limit after a miss, {%}. Homenode tries more in {for}.")
	GoalTries    = says("goal-tries", "Testing {} as the cause: batch work gets {} % of what it had.")
	GoalSiblings = says("goal-tries-siblings", "Testing SMT siblings as the cause: batch work leaves those of "+
		"work with goals free.")
	GoalTrying   = says("goal-trying", "Testing {} as the cause for another {for}, with less for batch work.")
	GoalHurts    = says("goal-hurts", "Less {} for batch work raised the slack by {%}: it stays limited.")
	GoalHarmless = says("goal-harmless", "Less {} for batch work did not help: it is no longer limited, and "+
		"not tested again for {for}.")
)
