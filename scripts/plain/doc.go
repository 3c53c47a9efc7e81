// Command plain counts words and phrases that make our English hard to read, per folder, and fails where a folder has
// more of them per 1,000 words than counts.txt allows.
//
// It reads three kinds of text: comments of Go files, pages of the handbook (Markdown and the topics of `homenode
// help`), and sentences (the strings of core/words, of the help texts in ui/cli, and of the metrics in ui/metrics).
// CONVENTIONS.md, "Plain English", has the rules and examples.
//
//	go run ./scripts/plain                   check against scripts/plain/counts.txt
//	go run ./scripts/plain -show docs        print every match in a folder, with its file
//	go run ./scripts/plain -update           lower the limits to the current rates; never raises one
//
// A folder without a line in counts.txt may have as many as all text of its kind has on average.
package main
