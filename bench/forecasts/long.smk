# Stages one after the other, two of which need much room, with long stages between that need little.

JOB = config["job"]
SAMPLES = [f"{number}" for number in range(8)]
REGIONS = [f"{number}" for number in range(6)]


rule all:
    input: "report"

rule raw:
    output: temp("raw/{sample}")
    resources: disk_mb=24, runtime=1
    shell: "{JOB} --seconds 2 --mb 16 --write {output}"

rule align:
    input: "raw/{sample}"
    output: temp("aligned/{sample}")
    resources: disk_mb=30, runtime=1
    shell: "{JOB} --seconds 4 --mb 20 --read {input} --write {output}"

rule merge:
    input: expand("aligned/{sample}", sample=SAMPLES)
    output: "merged"
    resources: disk_mb=45, runtime=1
    shell: "{JOB} --seconds 4 --mb 30 --read {input} --write {output}"

rule call:
    input: "merged"
    output: "called"
    resources: disk_mb=6, runtime=1
    shell: "{JOB} --seconds 20 --mb 4 --read {input} --write {output}"

rule region:
    input: "called"
    output: temp("region/{region}")
    resources: disk_mb=60, runtime=1
    shell: "{JOB} --seconds 4 --mb 40 --read {input} --write {output}"

rule summary:
    input: expand("region/{region}", region=REGIONS)
    output: "summary"
    resources: disk_mb=9, runtime=1
    shell: "{JOB} --seconds 3 --mb 6 --read {input} --write {output}"

rule report:
    input: "summary"
    output: "report"
    resources: disk_mb=3, runtime=1
    shell: "{JOB} --seconds 15 --mb 2 --read {input} --write {output}"
