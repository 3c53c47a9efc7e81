//go:build linux

package share

import "github.com/homenode/homenode/e2e/guest/lab"

// Tests are the tests of this package, by the name that package suite has for them.
var Tests = lab.Tests{
	"scx.beside":         scxBeside,
	"scx.bounds":         scxBounds,
	"scx.budget":         scxBudget,
	"scx.bursts":         scxBursts,
	"scx.cost":           scxCost,
	"scx.expel":          scxExpel,
	"scx.guard":          scxGuard,
	"scx.hotplug":        scxHotplug,
	"scx.idle":           scxIdle,
	"scx.limits":         scxLimits,
	"scx.load":           scxLoad,
	"scx.looks-idle":     scxLooksIdle,
	"scx.restless":       scxRestless,
	"scx.tasks":          scxTasks,
	"scx.together":       scxTogether,
	"scx.waits":          scxWaits,
	"share.base":         shareBase,
	"share.bench":        shareBench,
	"share.controller":   shareController,
	"share.cores":        shareCores,
	"share.delegated":    shareDelegated,
	"share.ends":         shareEnds,
	"share.freeze":       shareFreeze,
	"share.goals":        shareGoals,
	"share.goals-query":  shareGoalsQuery,
	"share.kernel":       shareKernel,
	"share.lacks":        shareLacks,
	"share.order":        shareOrder,
	"share.other":        shareOther,
	"share.run":          shareRun,
	"share.scheduler":    shareScheduler,
	"share.smt-off":      shareSMTOff,
	"share.starved":      shareStarved,
	"share.step":         shareStep,
	"share.sysrq":        shareSysRq,
	"share.trigger":      shareTrigger,
	"share.virtual":      func(t *lab.T) { shareVirtual(t, tollCases, 4, 250) },
	"share.virtual-goal": func(t *lab.T) { shareVirtual(t, tollGoalCases, 4, 250) },
	"share.watchdog":     shareWatchdog,
	"systemd.bench":      systemdBench,
}
