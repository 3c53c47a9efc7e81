// Command man writes homenode's manual pages into a folder: those of commands from the
// same table that parses the command line, homenode.yaml(5) from docs/config.md. Pages of
// commands that are no more are removed. docs/json.md, docs/openapi.json and the table of
// docs/metrics.md are written from the source. The sample configuration of the packages is
// written from docs/config.md, too. It runs in the root folder of the source.
package main
