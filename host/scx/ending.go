package scx

import "github.com/homenode/homenode/core/share"

// Bits of enum scx_exit_code and enum scx_exit_kind (kernel/sched/ext/internal.h).
const (
	exitSysRq   = 67
	exitParent  = 68
	exitError   = 1024
	exitStall   = 1026
	exitHotplug = 1 << 32
)

// ended is how the scheduler ended that is left in d.runs; nil when none is.
func (d *Driver) ended() *share.SchedulerEnd {
	if d.runs == nil {
		return nil
	}
	st, err := d.runs.Stats()
	if err != nil {
		return &share.SchedulerEnd{Kind: share.EndUnknown, Text: err.Error()}
	}
	end := st.Exit.end()
	if st.Exit.Kind == 0 && d.runs.below != nil {
		end.Kind = share.EndAbove
	}
	return &end
}

func (e Exit) end() share.SchedulerEnd {
	end := share.SchedulerEnd{Kind: share.EndUnknown, Text: e.String()}
	switch {
	case e.Kind == exitParent:
		end.Kind = share.EndAbove
	case e.Kind == exitSysRq:
		end.Kind = share.EndSysRq
	case e.Kind == exitStall:
		end.Kind = share.EndStalled
	case e.Kind >= exitError:
		end.Kind = share.EndError
	case e.Code&exitHotplug != 0:
		end.Kind = share.EndHotplug
	}
	return end
}
