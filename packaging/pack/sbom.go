package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// inside writes what is linked into the program, as the program itself says, in CycloneDX.
func (r *release) inside(tree []file) error {
	info, err := buildinfo.Read(bytes.NewReader(named(tree, program).data))
	if err != nil {
		return err
	}
	module := func(name, version string) cdx.Component {
		purl := "pkg:golang/" + name + "@" + version
		return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: version,
			PackageURL: purl}
	}
	main := module(info.Main.Path, r.version)
	main.Type = cdx.ComponentTypeApplication
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	parts := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		parts = append(parts, module(d.Path, d.Version))
	}
	var uses []string
	for _, p := range parts {
		uses = append(uses, p.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	w, err := os.Create(filepath.Join(r.out, "homenode-"+r.version+".cdx.json"))
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}
