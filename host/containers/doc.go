// Package containers knows what people call the containers of Docker and Podman, whose cgroups
// have IDs for names: by the files in which the engines keep that, for neither tells anybody who
// does not ask its service.
//
// Docker has a folder for each container (/var/lib/docker/containers/ID/config.v2.json, moby
// container.Container), Podman of root lists of all (containers.json and
// volatile-containers.json in overlay-containers, or the folder of another storage driver, below
// /var/lib/containers/storage; containers/storage containerStore).
// What cannot be read, as the lists in the home of a user, leaves the ID.
//
// Not in here: anything that runs or changes containers.
package containers
