// Package process carries out steps on processes from outside: the affinity of
// all their threads, and moving their pages to their home. It also confines the
// calling thread before it becomes another program (homenode run).
//
// Words: a process is named by PID and start time, for PIDs are used again; a
// range is one line of /proc/PID/maps; a unit is what moves as a whole, a page, a
// transparent huge page or a hugetlb page; home is the nodes in step.To.
//
// How pages are moved (see docs/design/moving.md): /proc/PID/numa_maps says in which
// ranges pages lie off home, /proc/PID/pagemap which pages are there at all,
// move_pages(2) with no target nodes where each of them is, and move_pages(2)
// with target nodes moves them, a batch at a time. What a move has done is never
// taken from its return but asked again afterwards: when some pages of a call
// fail, the kernel leaves the status of the others unwritten
// (move_pages_and_store_status, mm/migrate.c).
//
// Identity: the start time is compared before and after each call that takes a
// PID. It is the same before and after only if the PID was that process's all
// the time, for no two processes of one PID have the same start time.
//
// Not in here: which pages ought to be where, cgroups, and the journal.
package process
