package web

import (
	"embed"
	"io/fs"
)

//go:embed page
var page embed.FS

// Files is index.html, page.css and page.js.
var Files = sub()

func sub() fs.FS {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // a name that is no path
	}
	return files
}
