// Package house makes the picture that the page shows: an api.House of an api.Status, what
// changes from one to the next, and the answers to a search. Figures are rounded, so that what
// has hardly changed is not sent again; where many workloads share a home the small ones are one
// resident.
//
// Not in here: when a picture is made and who gets it (api.Houses), and how it is drawn (ui/web).
package house
