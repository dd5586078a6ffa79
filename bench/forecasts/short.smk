# Over after some seconds: parts, and one file made of them. Sizes are declared about as they are.

JOB = config["job"]
PARTS = [f"{number:02}" for number in range(8)]


rule all:
    input: "whole"

rule part:
    output: temp("part/{name}")
    resources: disk_mb=36, runtime=1
    shell: "{JOB} --seconds 3 --mb 24 --write {output}"

rule whole:
    input: expand("part/{name}", name=PARTS)
    output: "whole"
    resources: disk_mb=30, runtime=1
    shell: "{JOB} --seconds 3 --mb 20 --read {input} --write {output}"
