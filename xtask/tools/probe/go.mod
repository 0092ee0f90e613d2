module trustplane.io/tools/probe

go 1.26.0

tool trustplane.io/tools/probe
