# Many small jobs at once, gathered in groups, and one long job at the end, as for a fit or a figure.

JOB = config["job"]
GROUPS = [f"{number}" for number in range(6)]
WITHIN = [f"{number}" for number in range(8)]


rule all:
    input: "fit"

rule scatter:
    output: temp("scattered/{group}-{name}")
    resources: disk_mb=9, runtime=1
    shell: "{JOB} --seconds 1.5 --mb 6 --write {output}"

rule gather:
    input: expand("scattered/{{group}}-{name}", name=WITHIN)
    output: temp("gathered/{group}")
    resources: disk_mb=6, runtime=1
    shell: "{JOB} --seconds 1 --mb 4 --read {input} --write {output}"

rule fit:
    input: expand("gathered/{group}", group=GROUPS)
    output: "fit"
    resources: disk_mb=8, runtime=1
    shell: "{JOB} --seconds 12 --mb 5 --read {input} --write {output}"
